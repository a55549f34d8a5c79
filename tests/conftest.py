"""What all tests share: their order, Ctrl-C, chance, and the log as pytest made it."""

import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from cortado.server import logs

# Each run tries the same examples. A busy machine is no fault.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", PATIENT, derandomize=True)
settings.register_profile("new", PATIENT)
settings.load_profile("same")


def pytest_configure() -> None:
    """Feel Ctrl-C, which a shell lets its background jobs and all that they start ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow ones: begun last, one of them would keep one worker while others rest."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """Put the log back to what pytest made of it."""
    root, before = logging.getLogger(), {name: logging.getLogger(name).level for name in logs.NOISY}
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    for name, its_level in before.items():
        logging.getLogger(name).setLevel(its_level)
