"""One model with random weights and one server for all tests that need nothing special."""

from collections.abc import Iterator

import pytest
import torch

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.server import engine, service, session
from cortado.tests.model.untrained import TINY, TINY_SEED, untrained
from cortado.tests.server.running import PATIENCE, Running, running


@pytest.fixture(scope="session", autouse=True)
def patient() -> Iterator[None]:
    """No step counts as stuck, and no stream is given up, because other work takes the machine.

    Nor does each of many servers pay for a collection of all that the tests have.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "STALLED_SECONDS", PATIENCE)
        patch.setattr(session, "DETACH_SECONDS", PATIENCE)
        for module in (engine, service):
            patch.setattr(module, "freeze", lambda: None)
        yield


@pytest.fixture(scope="session")
def online() -> ReferenceRecognizer:
    torch.set_num_threads(1)
    return untrained(TINY, TINY_SEED)


@pytest.fixture(scope="session")
def server(online: ReferenceRecognizer) -> Iterator[Running]:
    with running(online) as server:
        yield server


@pytest.fixture
def at_rest(server: Running) -> Iterator[Running]:
    """The common server, which has to be without streams when the test is over."""
    yield server
    assert server.is_at_rest()
