"""The proof: a recording is the microphone of a real Chromium, and its text is on the page."""

import base64
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.tests import needs
from cortado.tests.clients.chromium import HEARD, Page
from cortado.tests.clients.conftest import BEFORE
from cortado.tests.clients.serving import transcribe
from cortado.tests.clients.speech import RATE, write

pytestmark = needs.in_chromium

Samples = NDArray[np.float32]

# What a download would hold, of the page's own modules.
MADE = """(async () => {{
    const {{ FORMATS }} = await import("./download.js");
    return FORMATS.{}[1](window.cortadoTakes);
}})()"""


def difference(sent: Samples, original: Samples) -> str:
    """Say how the sound that was sent differs from the recording, and where it begins in it."""
    size = len(sent) + len(original)
    cross = np.fft.rfft(sent, size) * np.conj(np.fft.rfft(original, size))
    fine = 16  # the browser begins between two samples of ours
    lag = int(np.argmax(np.fft.irfft(cross, size * fine)[: len(sent) * fine])) / fine
    turns = np.fft.rfftfreq(size) * lag
    moved = np.fft.irfft(np.fft.rfft(original, size) * np.exp(-2j * np.pi * turns), size)
    moved = moved[: len(sent)]
    gain = float(sent @ moved / (moved @ moved))
    rest = sent - gain * moved
    noise = 10 * np.log10(float(rest @ rest) / float(sent @ sent))
    return (
        f"the recording begins {lag / RATE:.4f} s into the {len(sent) / RATE:.2f} s that were "
        f"sent, at {20 * np.log10(gain):+.2f} dB; the rest, {noise:.1f} dB, is resampling"
    )


def test_the_text_on_the_page_is_the_transcription_of_what_was_heard(
    page: Page,
    model: Path,
    spoken: Samples,
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page.click("toggle")
    page.wait_for_state("listening")
    heard = BEFORE + len(spoken) / RATE + 0.5
    page.wait_for(f"window.cortadoSent.length * 0.04 > {heard}", seconds=heard + 20)
    page.click("toggle")
    page.wait_for_state("idle")

    sent = page.sent()
    exact, original = transcribe(model, write(tmp_path / "sent.wav", sent), recording)
    text = page.transcript()
    found = json.loads(page.evaluate(MADE.format("json")))["takes"][-1]
    assert text.split() == exact["text"].split()
    assert text.strip()
    assert found["characters"] == [
        {name: each[name] for name in ("text", "time")} for each in exact["characters"]
    ]
    assert page.text("elapsed") == f"0:{int(len(sent) / RATE):02}"
    assert page.text("delay").endswith(" s")
    assert page.messages == []

    with capsys.disabled():
        sys.stdout.write(f"\nthe page:   {text}\ntranscribe: {original['text']}\n")
        sys.stdout.write(f"{difference(sent, spoken)}; delay {page.text('delay')}\n")


# What a person does who lets go of a file over the page.
DROP = """(async () => {
    const bytes = Uint8Array.from(atob("GIVEN"), (one) => one.charCodeAt(0));
    const held = new DataTransfer();
    held.items.add(new File([bytes], "talk.wav", { type: "audio/wav" }));
    window.seen = [];
    const bar = document.getElementById("progress");
    const note = () => window.seen.push(bar.checkVisibility());
    new MutationObserver(note).observe(bar, { attributes: true, attributeFilter: ["hidden"] });
    for (const kind of ["dragover", "drop"]) {
        const event = new DragEvent(kind, { dataTransfer: held, bubbles: true, cancelable: true });
        document.getElementById("transcript").dispatchEvent(event);
        if (kind === "dragover") window.marked = document.body.classList.contains("dropping");
    }
})()"""

# The rows that the letters of each word stand in.
ROWS = """[...document.querySelectorAll(".word")].map((word) =>
    new Set([...word.getClientRects()].map(({ top }) => Math.round(top))).size)"""


def test_a_file_that_is_dropped_is_heard_with_its_progress_and_no_word_is_torn(
    page: Page, model: Path, opened: Path
) -> None:
    page.look("light", 360, 640)
    page.evaluate(DROP.replace("GIVEN", base64.b64encode(opened.read_bytes()).decode()))
    assert page.evaluate("window.marked"), "the page says that it takes the file"
    page.wait_for(HEARD)
    [expected] = transcribe(model, opened)
    assert page.transcript().split() == expected["text"].split()
    assert page.evaluate("document.querySelector('.caption').textContent").startswith("talk.wav,")
    assert page.evaluate("window.seen") == [True, False], "a bar showed how far it was"
    assert set(page.evaluate(ROWS)) == {1}
    assert page.messages == []
    page.look()


def test_recordings_that_are_dropped_together_are_heard_in_turn(page: Page, opened: Path) -> None:
    page.click("toggle")
    page.wait_for_state("listening")
    script = DROP.replace("GIVEN", base64.b64encode(opened.read_bytes()).decode())
    page.evaluate(script)
    assert page.text("status") == "Stop first, then open the recording again"
    page.click("toggle")
    page.wait_for_state("idle")
    page.click("clear")
    assert (page.text("elapsed"), page.text("delay")) == ("0:00", "–")
    first = 'held.items.add(new File([bytes], "talk.wav", { type: "audio/wav" }));'
    page.evaluate(script.replace(first, first + first.replace("talk", "second")))
    captions = "[...document.querySelectorAll('.caption')].map((one) => one.textContent)"
    page.wait_for(f"{captions}.length === 2 && document.body.dataset.state === 'idle'")
    names = [caption.partition(",")[0] for caption in page.evaluate(captions)]
    assert names == ["talk.wav", "second.wav"]
    assert page.messages == []


def test_the_page_is_used_by_keyboard_alone(page: Page) -> None:
    focused = "document.activeElement.id"
    ring = "getComputedStyle(document.activeElement).outlineStyle === 'solid'"
    assert not page.evaluate(ring), "nothing has a ring before the keyboard is used"
    stops: list[str] = []
    for _ in range(20):
        page.press("Tab")
        stops.append(page.evaluate(f"{focused} || document.activeElement.tagName"))
        if stops[-1] == "toggle":
            break
    assert page.evaluate(ring), "the focus is seen"
    page.press("Enter")
    page.wait_for_state("listening")
    assert page.text("toggle-label") == "Stop"
    page.press("Tab")
    assert page.evaluate(focused) == "pause"
    page.press(" ")
    page.wait_for_state("paused")
    page.press(" ")
    page.wait_for_state("listening")
    time.sleep(0.3)
    page.evaluate("document.getElementById('toggle').focus()")
    page.press(" ")
    page.wait_for_state("idle")
    assert page.text("toggle-label") == "Start"
    for _ in range(24):
        page.press("Tab")
        stops.append(page.evaluate(f"{focused} || document.activeElement.tagName"))
    assert {"transcript", "picture", "play", "sample", "open", "share", "clear"} <= set(stops)
    assert {"captions", "about-open", "SUMMARY"} <= set(stops)
    assert page.messages == []
