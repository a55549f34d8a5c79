"""What the tests of runs share."""

from pathlib import Path

import pytest

from cortado.tests.training.tiny import corpus


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus of tones, with a cache of its own beside it for each module."""
    return corpus(tmp_path_factory.mktemp("tones"))
