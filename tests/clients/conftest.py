"""One model, one server and one recording for all tests of the clients."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model import checkpoint, checkpoint_reader
from cortado.tests.clients import chromium
from cortado.tests.clients.chromium import Page
from cortado.tests.clients.serving import Served, serving, transcribe
from cortado.tests.clients.speech import RATE, speech, steady, write
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.training.tiny import MODEL


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def model() -> Path:
    """The shipped checkpoint."""
    return checkpoint_reader.DEFAULT


@pytest.fixture(scope="session")
def server(model: Path, folder: Path) -> Iterator[Served]:
    with serving(model, folder / "server.log", "--max-streams", "64") as served:
        yield served


@pytest.fixture(scope="session")
def spoken(folder: Path) -> NDArray[np.float32]:
    """Speech as 16-bit samples, which every way to the server carries unchanged."""
    _, samples = speech(folder)
    return (np.round(samples * 32768).clip(-32768, 32767) / 32768).astype(np.float32)


@pytest.fixture(scope="session")
def recording(spoken: NDArray[np.float32], folder: Path) -> Path:
    return write(folder / "speech.wav", spoken)


@pytest.fixture(scope="session")
def transcribed(model: Path, recording: Path) -> dict[str, Any]:
    """What `cortado transcribe --json` says of the recording."""
    [found] = transcribe(model, recording)
    assert len(found["text"].split()) > 3
    return found


@pytest.fixture(scope="session")
def text(transcribed: dict[str, Any]) -> str:
    """Its text, with the space at its end."""
    return "".join(one["text"] for one in transcribed["characters"])


@pytest.fixture(scope="session")
def opened(folder: Path) -> Path:
    """A recording for a page, which decodes it by itself."""
    return write(folder / "opened.wav", steady(folder))


BEFORE = 2.5  # seconds of silence: capture begins with the permission, the stream when it is ready
ELSEWHERE = "cortado.test"  # a name that is not localhost, so that http is not secure


@pytest.fixture(scope="session")
def browser(
    spoken: NDArray[np.float32], folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Page]:
    """One Chromium for all tests of the page; its microphone hears the recording."""
    silence = np.zeros(round(BEFORE * RATE), np.float32)
    microphone = write(folder / "microphone.wav", np.concatenate([silence, spoken, silence]))
    flags = (
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}%noloop",
        f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1",
    )
    with chromium.chromium(tmp_path_factory.mktemp("profile"), *flags) as page:
        yield page


@pytest.fixture
def page(browser: Page, server: Served) -> Page:
    """The page as it is opened for the first time, with a microphone that is allowed."""
    browser.look()
    browser.open_first(server.page + "/?debug=1")
    return browser


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny checkpoint."""
    folder = tmp_path_factory.mktemp("checkpoint")
    checkpoint.save(untrained(MODEL).recognizer, folder)
    return str(folder)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder with two recordings, one of them deeper, and a text."""
    folder = tmp_path / "archive"
    (folder / "deep").mkdir(parents=True)
    write(folder / "a.wav", noise(1, 1.0))
    write(folder / "deep" / "b.wav", noise(2, 0.7))
    (folder / "notes.txt").write_text("no audio")
    return folder
