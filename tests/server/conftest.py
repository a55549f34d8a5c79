"""One model with random weights and one server for all tests that need nothing special."""

from collections.abc import Iterator

import pytest
import torch

from model.online import OnlineRecognizer
from tests.model.untrained import untrained
from tests.server.running import Running, running


@pytest.fixture(scope="session")
def online() -> OnlineRecognizer:
    torch.set_num_threads(1)
    return untrained()


@pytest.fixture(scope="session")
def server(online: OnlineRecognizer) -> Iterator[Running]:
    with running(online) as server:
        yield server


@pytest.fixture
def at_rest(server: Running) -> Iterator[Running]:
    """The common server, which has to be without streams when the test is over."""
    yield server
    assert server.is_at_rest()
