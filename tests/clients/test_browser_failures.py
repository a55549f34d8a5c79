"""What the page says when something goes wrong, and how it looks, in a real Chromium."""

import json
import os
import wave
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from websockets.sync.client import connect

from cortado.tests import needs
from cortado.tests.clients.chromium import Page
from cortado.tests.clients.conftest import ELSEWHERE
from cortado.tests.clients.layout import LAID_OUT, SIZES, SMALL
from cortado.tests.clients.serving import Served

pytestmark = needs.in_chromium


@contextmanager
def occupied(served: Served, streams: int) -> Iterator[None]:
    """Hold that many streams of the server."""
    with ExitStack() as held:
        for _ in range(streams):
            socket = held.enter_context(connect(served.stream))
            socket.send('{"type": "start"}')
            assert json.loads(socket.recv(timeout=20))["type"] == "ready"
        yield


def wait_for_failure(page: Page) -> str:
    page.wait_for("!document.getElementById('failure').hidden")
    assert page.evaluate("document.body.dataset.state") == "idle"
    return page.text("failure-title")


def test_a_denied_microphone_is_told_and_can_be_tried_again(page: Page) -> None:
    page.answer("microphone", "denied")
    page.click("toggle")
    assert wait_for_failure(page) == "The microphone was not allowed."
    assert "icon beside the address" in page.text("failure-advice")
    page.answer("microphone")
    page.click("retry")
    page.wait_for_state("listening")
    assert page.evaluate("document.getElementById('failure').hidden")
    page.click("toggle")
    page.wait_for_state("idle")


def test_what_went_wrong_stands_beside_the_text_at_any_size(page: Page, recording: Path) -> None:
    page.hear_file(recording)
    page.evaluate("document.getElementById('device').add(new Option('gone', 'gone', true, true))")
    page.click("toggle")
    assert wait_for_failure(page) == "No microphone was found."
    for width, height in SIZES + SMALL:
        page.look("light", width, height)
        page.wait_for(f"innerWidth === {width}")
        *laid_out, is_whole = page.evaluate(LAID_OUT)
        assert laid_out == [True] * 3
        assert is_whole or (width, height) in SMALL
        box = "document.getElementById('{}').getBoundingClientRect().height"
        assert page.evaluate(box.format("failure")) > 60
        assert page.evaluate(box.format("transcript")) > 40
    page.look()


def test_an_insecure_address_is_told_at_once_and_still_takes_recordings(
    page: Page, server: Served, recording: Path
) -> None:
    page.open(f"http://{ELSEWHERE}:{server.port}/")
    assert wait_for_failure(page) == "The microphone is locked on this address."
    assert "https or localhost" in page.text("failure-advice")
    page.hear_file(recording)
    assert page.transcript()


def test_a_file_that_is_no_sound_is_told(page: Page, tmp_path: Path) -> None:
    text = tmp_path / "poem.wav"
    text.write_text("no sound at all")
    page.open_file(text)
    assert wait_for_failure(page) == "A file could not be read as sound."
    assert "poem.wav" in page.text("failure-origin")


def test_a_recording_that_is_cut_short_is_told_beside_its_text(
    page: Page, recording: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.wav"
    cut.write_bytes(recording.read_bytes()[:-1000])
    page.hear_file(cut)
    assert wait_for_failure(page) == "A recording is cut short."
    assert page.text("failure-origin") == "cut-short: cut.wav: 1000 bytes are missing"
    assert page.transcript()


def test_a_recording_that_is_cut_short_does_not_keep_the_others_waiting(
    page: Page, recording: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.wav"
    cut.write_bytes(recording.read_bytes()[:-1000])
    page.open_file(cut, recording)
    captions = "[...document.querySelectorAll('.caption')].map((one) => one.textContent)"
    page.wait_for(f"{captions}.length === 2 && document.body.dataset.state === 'idle'")
    first, second = page.evaluate(captions)
    assert (first[:8], second[:11]) == ("cut.wav,", "speech.wav,")
    assert ["broken off" in one for one in (first, second)] == [True, False]
    assert page.text("failure-origin") == "cut-short: cut.wav: 1000 bytes are missing"
    assert page.evaluate("document.getElementById('retry').hidden")


def test_recordings_that_cannot_be_read_wait_for_another_try_and_hold_up_no_others(
    page: Page, recording: Path, tmp_path: Path
) -> None:
    poem, late, away = (tmp_path / name for name in ("poem.wav", "late.wav", "away"))
    poem.write_text("no sound at all")
    late.write_bytes(recording.read_bytes())
    page.open_file(poem, recording, late)
    late.rename(away)  # as with a disk that is unplugged
    captions = "[...document.querySelectorAll('.caption')].map((one) => one.textContent)"
    origins = "document.getElementById('failure-origin').textContent.split('\\n')"
    page.wait_for(f"{origins}.length === 2 && document.body.dataset.state === 'idle'")
    assert [one[:20] for one in page.evaluate(origins)] == [
        "not-audio: poem.wav:",
        "not-audio: late.wav:",
    ]
    assert [one[:11] for one in page.evaluate(captions)] == ["speech.wav,"]
    away.rename(late)
    page.click("retry")
    page.wait_for(f"{captions}.length === 2 && document.body.dataset.state === 'idle'")
    assert page.evaluate(captions)[1].startswith("late.wav,")
    assert page.text("failure-origin").startswith("not-audio: poem.wav:")
    assert page.evaluate(origins + ".length") == 1


def test_a_recording_that_is_too_long_is_told_before_it_is_decoded(
    page: Page, tmp_path: Path
) -> None:
    long = tmp_path / "long.wav"
    with wave.open(str(long), "wb") as file:
        file.setparams((1, 1, 8000, 0, "NONE", ""))  # a byte a sample
        file.writeframes(b"")
    seconds = 3 * 3600 + 60
    head = long.read_bytes()[:40] + (8000 * seconds).to_bytes(4, "little")
    long.write_bytes(head)
    os.truncate(long, len(head) + 8000 * seconds)  # without any room on the disk
    page.open_file(long)
    assert wait_for_failure(page) == "A file is too large for the page."
    assert page.text("failure-origin") == "too-large: long.wav: 3:01:00"


def test_a_server_that_is_full_is_told(page: Page, server: Served) -> None:
    with occupied(server, 64):
        page.click("toggle")
        assert wait_for_failure(page) == "The server is full."


def test_a_microphone_that_goes_away_while_the_page_connects_is_told(page: Page) -> None:
    page.evaluate(
        """navigator.mediaDevices.getUserMedia = async () => {
            const sink = new AudioContext().createMediaStreamDestination();
            sink.stream.getAudioTracks()[0].stop();
            return sink.stream;
        }"""
    )
    page.click("toggle")
    assert wait_for_failure(page) == "The microphone went away."
    page.wait_for_state("idle")


def test_stop_ends_a_take_whose_audio_thread_answers_no_more(page: Page) -> None:
    page.evaluate(
        """MessagePort.prototype.postMessage = new Proxy(MessagePort.prototype.postMessage, {
            apply: (post, port, [message]) => message !== "flush" && post.call(port, message),
        })"""
    )
    page.click("toggle")
    page.wait_for_state("listening")
    page.click("toggle")
    page.wait_for_state("idle")


def test_playing_without_sound_output_is_told_and_can_be_tried_again(
    page: Page, recording: Path
) -> None:
    page.hear_file(recording)
    page.evaluate(
        """window.resumed = AudioContext.prototype.resume,
        AudioContext.prototype.resume = () => new Promise(() => {}),
        window.state = Object.getOwnPropertyDescriptor(BaseAudioContext.prototype, "state"),
        Object.defineProperty(BaseAudioContext.prototype, "state",
            { value: "suspended", configurable: true }), null"""
    )
    page.click("play")
    assert page.text("play") == "Stop playing"
    assert wait_for_failure(page) == "The browser starts no sound."
    assert page.text("play") == "Play"
    page.evaluate(
        """AudioContext.prototype.resume = window.resumed,
        Object.defineProperty(BaseAudioContext.prototype, "state", window.state), null"""
    )
    page.click("retry")
    assert page.evaluate("document.getElementById('failure').hidden")
    assert page.text("play") == "Stop playing"
    page.click("play")


def test_a_browser_without_sound_output_is_told_and_the_sample_can_be_given_up(page: Page) -> None:
    page.evaluate(
        """AudioContext.prototype.resume = () => new Promise(() => {}),
        Object.defineProperty(BaseAudioContext.prototype, "state", { value: "suspended" }), null"""
    )
    page.click("sample")
    page.wait_for_state("opening")
    page.click("toggle")
    page.wait_for_state("idle")
    page.click("sample")
    assert wait_for_failure(page) == "The browser starts no sound."


def test_a_tab_that_is_shared_without_sound_is_told(page: Page) -> None:
    page.evaluate(
        """navigator.mediaDevices.getDisplayMedia = async () =>
            document.createElement("canvas").captureStream()"""
    )
    page.click("share")
    assert wait_for_failure(page) == "What was shared has no sound."
    page.evaluate(
        """navigator.mediaDevices.getDisplayMedia = () =>
            Promise.reject(new DOMException("no", "NotAllowedError"))"""
    )
    page.click("retry")
    page.wait_for("document.getElementById('failure-title').innerText === 'Nothing was shared.'")


def test_a_page_whose_modules_do_not_load_says_so_and_has_no_start(
    page: Page, server: Served
) -> None:
    page.command("Network.enable")
    page.command("Network.setCacheDisabled", cacheDisabled=True)
    page.command("Network.setBlockedURLs", urls=["*timeline.js"])
    page.open(f"{server.page}/?unloaded")
    page.wait_for("!document.getElementById('unloaded').hidden")
    assert page.evaluate("document.getElementById('toggle').disabled")
    page.command("Network.setBlockedURLs", urls=[])
    page.open(f"{server.page}/?loaded")
    page.wait_for("!document.getElementById('toggle').disabled")
    assert page.evaluate("document.getElementById('unloaded').hidden")


def test_a_microphone_that_gives_only_silence_is_told(page: Page) -> None:
    page.evaluate(
        """(() => {
            const plain = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
            navigator.mediaDevices.getUserMedia = async (wanted) => {
                const stream = await plain(wanted);
                [window.microphone] = stream.getAudioTracks();
                window.microphone.enabled = false;
                return stream;
            };
        })()"""
    )
    page.click("toggle")
    page.wait_for("document.getElementById('status').innerText.includes('is it muted?')")
    page.evaluate("window.microphone.enabled = true")
    page.wait_for("document.getElementById('status').innerText === 'Listening'")
    page.click("toggle")
    page.wait_for_state("idle")
