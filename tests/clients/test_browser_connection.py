"""A take in a real Chromium whose connection breaks, and whose server is killed and comes back."""

import time
from pathlib import Path

from cortado.clients.speech import stream
from cortado.tests import needs
from cortado.tests.clients.chromium import Page
from cortado.tests.clients.cutting import way_to
from cortado.tests.clients.serving import Served, serving

pytestmark = needs.in_chromium

LINK = "document.body.dataset.link === '{}'"
HEARD = "window.cortadoTakes.at(-1).timeline.marks.map(({ text, time }) => [text, time])"


def speak(page: Page) -> None:
    """Play the sample, which ends by itself."""
    page.click("sample")
    page.wait_for_state("listening")


def assert_heard_as_in_one_go(page: Page, server: Served) -> None:
    heard = page.evaluate(HEARD)
    assert heard
    uncut = stream(page.sent(), server.stream).characters
    assert heard == [[one.text, one.time] for one in uncut], "no character is lost or moved"


def test_a_connection_that_is_cut_in_mid_speech_costs_no_character(
    page: Page, server: Served
) -> None:
    with way_to(server.port) as way:
        page.open(f"http://127.0.0.1:{way.port}/?debug=1")
        speak(page)
        for heard in (2, 5):
            page.wait_for(f"window.cortadoSent.length > {heard * 25}")
            way.open = False
            way.cut()
            page.wait_for(LINK.format("lost"))
            assert page.text("status").startswith("Connection lost; what you say is kept")
            assert page.evaluate("document.getElementById('failure').hidden"), "it is said quietly"
            time.sleep(0.5)
            way.open = True
            page.wait_for(LINK.format("open"))
            assert page.text("status") == "Connected again, nothing was lost"
        page.wait_for_state("idle", seconds=90)
    assert_heard_as_in_one_go(page, server)


def test_a_server_that_is_killed_and_started_again_goes_on_with_the_take(
    browser: Page, model: Path, folder: Path
) -> None:
    with serving(model, folder / "mortal.log") as mortal, way_to(mortal.port) as way:
        browser.open(f"http://127.0.0.1:{way.port}/?debug=1")
        speak(browser)
        browser.wait_for("document.querySelectorAll('.word').length > 4")
        mortal.process.kill()
        browser.wait_for(LINK.format("lost"))
        before = browser.transcript()
        with serving(model, folder / "again.log") as again:
            way.target = again.port
            browser.wait_for_state("idle", seconds=180)
            after = browser.transcript()
            assert after.startswith(before), "what was told stands"
            assert len(after) > len(before) + 20, "what was spoken in between is there"
            times = [at for _, at in browser.evaluate(HEARD)]
            assert times == sorted(times)
            assert times[-1] > browser.evaluate("window.cortadoSent.length") * 0.04 - 3
            assert browser.evaluate("document.getElementById('failure').hidden")
            assert browser.evaluate("document.querySelectorAll('.take').length") == 1
            speak(browser)
            browser.wait_for("[...document.querySelectorAll('.take')].at(-1).innerText.length > 20")
            again.process.kill()
            browser.wait_for(LINK.format("lost"))
            browser.click("toggle")
            browser.wait_for("document.getElementById('toggle-label').textContent === 'Give up'")
            before = browser.transcript()
            browser.click("toggle")
            browser.wait_for_state("idle")
            assert browser.text("failure-title").startswith("The connection was lost")
            assert browser.transcript() == before, "the text stays"


def test_a_pause_takes_no_sound_and_the_take_goes_on_after_it(page: Page, server: Served) -> None:
    speak(page)
    page.wait_for("window.cortadoSent.length > 75")
    page.click("pause")
    page.wait_for("window.cortadoTake.stream.state === 'paused'")
    assert page.text("pause") == "Go on"
    sent = page.evaluate("window.cortadoSent.length")
    time.sleep(0.7)
    assert page.evaluate("window.cortadoSent.length") - sent <= 5
    page.click("pause")
    page.wait_for_state("idle", seconds=90)
    assert page.evaluate("window.cortadoSent.length") > sent + 25
    assert_heard_as_in_one_go(page, server)
    assert page.messages == []
