"""Take the README's picture of the page, with the shipped model hearing a recording.

python -m tests.clients.take_picture [RECORDING] [PICTURE] [light|dark]
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cortado.model.audio.decode import decode
from cortado.model.checkpoint_reader import DEFAULT
from cortado.tests.clients.chromium import chromium, playing
from cortado.tests.clients.serving import ROOT, serving
from cortado.tests.clients.speech import RATE, speech, write

PICTURE = ROOT / "docs" / "images" / "page.png"
BEFORE = 1.0  # seconds of silence before the recording


def main(recording: str = "", picture: str = "", scheme: str = "light") -> None:
    """Write the picture of the page a moment before the recording ends."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        samples = decode(Path(recording)) if recording else speech(folder)[1]
        silence = np.zeros(round(BEFORE * RATE), np.float32)
        microphone = write(folder / "microphone.wav", np.concatenate([silence, samples, silence]))
        (folder / "profile").mkdir()
        with (
            serving(DEFAULT, folder / "server.log") as server,
            chromium(folder / "profile", *playing(microphone)) as page,
        ):
            page.look(scheme, width=1000, height=620)
            page.open(server.page)
            page.click("toggle")
            page.wait_for("document.body.dataset.state === 'listening'")
            time.sleep(BEFORE + len(samples) / RATE)
            target = Path(picture) if picture else PICTURE
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(page.screenshot())


if __name__ == "__main__":
    main(*sys.argv[1:])
