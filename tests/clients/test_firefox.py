"""The page in a real Firefox: a recording is heard by its audio thread and read on the page."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.tests import needs
from cortado.tests.clients.firefox import firefox, sound
from cortado.tests.clients.serving import Served, transcribe
from cortado.tests.clients.speech import RATE, write

pytestmark = [pytest.mark.browser, pytest.mark.slow, needs.firefox, needs.pulseaudio]


def test_what_is_said_into_firefox_is_read_in_it(
    server: Served,
    model: Path,
    spoken: NDArray[np.float32],
    tmp_path: Path,
) -> None:
    silence = np.zeros(RATE, np.float32)
    said = write(tmp_path / "said.wav", np.concatenate([silence, spoken, silence]))
    for name in ("sound", "profile"):
        (tmp_path / name).mkdir()
    with sound(tmp_path / "sound") as heard, firefox(tmp_path / "profile", heard) as page:
        page.open(server.page + "/?debug=1")
        page.click("toggle")
        page.wait_for_state("listening", seconds=60)
        heard.play(said)
        page.click("toggle")
        page.wait_for_state("idle", seconds=60)
        sent, text = page.sent(), page.transcript()
        (tmp_path / "firefox.png").write_bytes(page.screenshot())
    assert page.messages == []
    [exact] = transcribe(model, write(tmp_path / "sent.wav", sent))
    assert text.split() == exact["text"].split()
    assert text.strip()
