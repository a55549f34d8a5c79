"""The log as pytest made it, for tests of commands that set it up anew."""

import logging
from collections.abc import Iterator

import pytest

from cortado.server import logs


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """Put the log back to what pytest made of it."""
    root, before = logging.getLogger(), {name: logging.getLogger(name).level for name in logs.NOISY}
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    for name, its_level in before.items():
        logging.getLogger(name).setLevel(its_level)
