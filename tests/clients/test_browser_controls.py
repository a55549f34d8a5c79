"""Every control and state of the page, in a real Chromium that has read one recording."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cortado
from cortado.tests import needs
from cortado.tests.clients.axe import violations
from cortado.tests.clients.chromium import Page
from cortado.tests.clients.layout import LAID_OUT, SIZES
from cortado.tests.clients.serving import Served, transcribe
from cortado.tests.clients.speech import write

pytestmark = needs.in_chromium

PICTURE = "window.cortadoPicture"


@pytest.fixture(scope="module")
def page(browser: Page, server: Served, recording: Path) -> Iterator[Page]:
    """The page after it has read a recording."""
    browser.look()
    browser.open_first(server.page + "/?debug=1&controls")
    browser.hear_file(recording)
    yield browser
    browser.evaluate("localStorage.clear()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_nothing_runs_over_anything_and_everybody_can_read_it(
    width: int, height: int, scheme: str, page: Page
) -> None:
    page.look(scheme, width, height)
    page.wait_for(f"document.documentElement.dataset.theme === '{scheme}'")
    assert page.evaluate(LAID_OUT) == [True] * 4
    opened = "document.querySelectorAll('details').forEach((each) => {{ each.open = {}; }})"
    page.evaluate(opened.format("true"))
    shown = violations(page)
    page.evaluate(opened.format("false"))
    page.click("about-open")
    shown += violations(page)
    page.click("about-close")
    assert shown == []


# Seconds that a picture shows of three, of which it was given a part, the rest being there later.
SHOWN = """(async () => {
    const { Sound } = await import("./sound.js");
    const { Spectrogram } = await import("./spectrogram.js");
    const noise = (length) => Int16Array.from({ length }, () => 2e4 * (Math.random() - 0.5)).buffer;
    const wait = (ms) => new Promise((done) => setTimeout(done, ms));
    const pen = new OffscreenCanvas(400, 80).getContext("2d", { willReadFrequently: true });
    const palette = new Uint32Array(256).fill(0xff0000ff);
    const sound = new Sound();
    const draw = () => picture.draw(pen, 0, 4, 100, 0, 80, palette);
    const shown = () => {
        const { data } = pen.getImageData(0, 40, 400, 1);
        return [...Array(400).keys()].filter((x) => data[4 * x + 3]).length / 100;
    };
    const picture = new Spectrogram(sound, draw);
    const take = (length, isSeen) => {
        const bytes = noise(length);
        sound.append(bytes);
        if (isSeen) picture.push(bytes);
    };
    GIVEN
    for (let k = 0; shown() < 2.9 && k < 1000; k += 1) {
        draw();
        await wait(10);
    }
    return shown();
})()"""


@pytest.mark.parametrize(
    "given",
    [
        "take(16000, false); draw(); while (!shown()) await wait(10); take(32000, false);",
        "take(16000, true); take(16000, false); take(16000, true);",
    ],
    ids=["a file", "a take that was not seen for a while"],
)
def test_the_picture_shows_all_of_the_sound(given: str, page: Page) -> None:
    assert page.evaluate(SHOWN.replace("GIVEN", given)) == pytest.approx(3.0, abs=0.05)


def test_the_errors_are_told_as_the_card_has_them(page: Page) -> None:
    info = page.evaluate("fetch('v1/info').then((answer) => answer.json())")
    scores = info["card"].get("card", {}).get("scores", [])
    sentence = page.text("error-sentence")
    wrong = [round(100 * score["wer"]) for score in scores]
    assert not wrong or f"{min(wrong)} to {max(wrong)} of 100 words" in sentence
    page.click("about-open")
    assert page.evaluate("document.getElementById('about').open")
    assert page.evaluate("document.querySelectorAll('#scores tr').length") == len(scores)
    assert "CC BY 4.0" in page.text("about")
    page.press("Escape")
    assert not page.evaluate("document.getElementById('about').open")


def download(page: Page, folder: Path, kind: str) -> str:
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.evaluate("document.querySelector('#download summary').click()")
    page.evaluate(f"document.querySelector('[data-format={kind}]').click()")
    for _ in range(200):
        if found := [*folder.glob(f"cortado-*.{kind}")]:
            return found[0].read_text()
        time.sleep(0.05)
    raise TimeoutError(f"no {kind} was saved")


def test_downloads_hold_what_transcribe_gives(page: Page, model: Path, tmp_path: Path) -> None:
    # The browser decodes the file itself: what it sent is what both have to agree on.
    [expected] = transcribe(model, write(tmp_path / "sent.wav", page.sent()))
    words = expected["text"].split()
    assert download(page, tmp_path, "txt").split() == words
    made: dict[str, Any] = json.loads(download(page, tmp_path, "json"))
    [take] = made["takes"]
    heard = [vars(word) for word in cortado.load(model).transcribe(tmp_path / "sent.wav").words]
    assert [word.pop("alternatives") for word in heard] == [()] * len(heard)  # not asked for
    told = [word for utterance in take["utterances"] for word in utterance["words"]]
    assert told == [word | {"confidence": round(word["confidence"], 3)} for word in heard]
    doubtful = "[...document.querySelectorAll('.word.doubtful')].map((each) => each.textContent)"
    assert page.evaluate(doubtful) == [word["text"] for word in told if word["confidence"] < 0.5]
    wanted = [{name: each[name] for name in ("text", "time")} for each in expected["characters"]]
    assert take["characters"] == wanted
    assert (take["source"], take["text"].split()) == ("speech.wav", words)
    blocks = download(page, tmp_path, "srt").strip().split("\n\n")
    assert blocks[0].startswith("1\n00:00:0")
    assert " ".join(" ".join(block.split("\n")[2:]) for block in blocks).split() == words
    assert download(page, tmp_path, "vtt").startswith("WEBVTT\n\n00:00:0")


def test_copied_text_is_the_text_on_the_page(page: Page) -> None:
    page.answer("clipboard-read")
    page.click("copy")
    page.wait_for("document.getElementById('copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()").split() == page.transcript().split()


def test_the_end_of_the_text_stays_in_view_when_a_telephone_is_turned(page: Page) -> None:
    below = """(() => { const { scrollHeight, scrollTop, clientHeight } =
        document.getElementById("transcript");
        return [scrollHeight > clientHeight, scrollHeight - scrollTop - clientHeight < 2]; })()"""
    choose(page, "size", "huge")
    page.look("light", 320, 400)
    page.wait_for(f"{below}.every(Boolean)")
    page.evaluate("document.getElementById('transcript').scrollTop = 0")
    page.wait_for("document.querySelector('.more-below') && !document.querySelector('.more-above')")
    page.look("light", 400, 320)
    page.wait_for("innerWidth === 400")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")  # drawn
    assert page.evaluate(below) == [True, False]
    choose(page, "size", "normal")
    page.look()


def test_at_rest_the_last_character_is_in_view_and_the_picture_can_be_moved(page: Page) -> None:
    page.look()
    page.click("transcript")
    rest = f"{PICTURE}.rest(), [{PICTURE}.end, {PICTURE}.timeline.marks.at(-1).place]"
    end, last = page.evaluate(rest)
    assert end - 1100 / 180 < last < end
    page.evaluate("document.getElementById('picture').focus()")
    before = page.evaluate("document.getElementById('picture').ariaValueNow")
    page.press("Home")
    page.press("End")
    page.press("ArrowLeft")
    assert page.evaluate("document.getElementById('picture').ariaValueNow") != before or end < 7


def test_the_take_is_played_and_the_word_that_is_heard_is_shown(page: Page) -> None:
    page.click("play")
    assert page.text("play") == "Stop playing"
    page.wait_for(f"{PICTURE}.cursor > 0.3 && document.querySelector('.word.played')")
    page.click("play")
    assert page.evaluate(f"{PICTURE}.cursor") is None
    assert not page.evaluate("document.querySelector('.word.played')")


# Where playing begins, which ends it: a last word is over before a busy machine looks again.
BEGUN = f"""window.begun = new Promise((done) => {{
    const look = () => {{
        const {{ cursor }} = {PICTURE};
        if (cursor === null) return setTimeout(look);
        document.getElementById("play").click();
        done(cursor);
    }};
    look();
}}), null"""


@pytest.mark.parametrize("what", ["#picture", ".word:last-child"])
def test_a_click_plays_the_sound_there(what: str, page: Page) -> None:
    page.evaluate(f"{PICTURE}.rest()")
    x, y, wanted = page.evaluate(
        f"""(() => {{
            const {{ left, top, width, height }} =
                [...document.querySelectorAll("{what}")].at(-1).getBoundingClientRect();
            const {{ end }} = {PICTURE};
            const span = document.getElementById("picture").clientWidth / 180;
            const word = Number([...document.querySelectorAll(".word")].at(-1).dataset.time) - 0.25;
            const there = "{what}" === "#picture" ? end - span / 2 : word;
            return [left + width / 2, top + height / 2, there];
        }})()"""
    )
    page.evaluate(BEGUN)
    for kind in ("mousePressed", "mouseReleased"):
        page.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    assert wanted - 0.1 <= page.evaluate("window.begun") < wanted + 3


def test_another_button_of_the_mouse_plays_nothing(page: Page) -> None:
    box = "document.getElementById('picture').getBoundingClientRect()"
    x, y = page.evaluate(f"[{box}.left + 50, {box}.top + 20]")
    for kind in ("mousePressed", "mouseReleased"):
        page.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="right", clickCount=1)
    assert page.text("play") == "Play"
    page.press("Escape")  # the browser's menu


def test_all_of_a_long_text_is_printed(page: Page) -> None:
    page.evaluate(
        """for (const text of Array(80).fill(document.querySelector(".take")))
            document.getElementById("transcript").append(text.cloneNode(true))"""
    )
    printed = base64.b64decode(page.command("Page.printToPDF")["data"])
    page.evaluate("[...document.querySelectorAll('.take')].slice(1).forEach((one) => one.remove())")
    assert printed.count(b"/Type /Page\n") > 3


def test_a_selection_outlives_the_end_of_its_utterance(page: Page) -> None:
    before, after, later = page.evaluate(
        """(async () => {
            const { Transcript } = await import("./transcript.js");
            const root = document.body.appendChild(document.createElement("div"));
            const on = { point() {}, play() {} };
            const transcript = new Transcript(root, document.createElement("p"), on);
            const selection = getSelection();
            transcript.begin({});
            transcript.append([..."one two"].map((text) => ({ text, time: 0, confidence: 1 })));
            const [first, last] = root.querySelectorAll(".word");
            const [from, to] = [first.lastChild.firstChild, last.firstChild.firstChild];
            selection.setBaseAndExtent(from, 0, to, 1);
            const before = selection.toString();
            transcript.breakLine();
            const after = selection.toString();
            selection.removeAllRanges();
            await new Promise((done) => setTimeout(done, 100));
            const later = root.querySelectorAll(".character").length;
            root.remove();
            return [before, after, later];
        })()"""
    )
    assert (before, after, later) == ("e t", "e t", 0)


def test_the_keyboard_stays_on_the_page_when_what_it_was_on_goes_away(page: Page) -> None:
    page.evaluate("document.getElementById('sample').focus()")
    page.press("Enter")
    page.wait_for_state("listening")
    assert page.evaluate("document.activeElement.id") == "toggle"
    page.wait_for("document.getElementById('freeze').checkVisibility()")
    page.evaluate("document.getElementById('freeze').focus()")
    page.click("toggle")
    page.wait_for_state("idle")
    assert page.evaluate("document.activeElement.id") == "toggle"


def test_captions_show_the_last_lines_alone(page: Page) -> None:
    page.click("captions")
    page.wait_for("document.body.classList.contains('captioned')")
    lines, size = page.evaluate(
        """(() => {
            const { height } = document.getElementById("transcript").getBoundingClientRect();
            const { lineHeight, fontSize } = getComputedStyle(document.querySelector(".text"));
            return [height / parseFloat(lineHeight), parseFloat(fontSize)];
        })()"""
    )
    assert 1 < lines < 3.1
    assert size >= 32
    for hidden in ("#errors", "#sight", "#tools"):
        assert not page.evaluate(f"document.querySelector('{hidden}').checkVisibility()")
    page.press("Escape")
    page.wait_for("!document.body.classList.contains('captioned')")
    assert page.evaluate("document.getElementById('captions-leave').hidden")


def choose(page: Page, element: str, value: str) -> None:
    page.evaluate(
        f"""(() => {{
            const found = document.getElementById("{element}");
            found.value = "{value}";
            found.dispatchEvent(new Event("change"));
        }})()"""
    )


def test_menus_close_by_escape_and_by_a_press_elsewhere(page: Page) -> None:
    for close in ("press", "click"):
        page.evaluate("document.querySelector('#settings summary').click()")
        assert page.evaluate("document.getElementById('settings').open")
        if close == "press":
            page.evaluate("document.getElementById('size').focus()")
            page.press("Escape")
        else:
            page.evaluate("document.body.dispatchEvent(new Event('pointerdown', {bubbles: true}))")
        assert not page.evaluate("document.getElementById('settings').open")


def test_the_microphone_can_be_chosen_and_the_picture_frozen_while_it_runs(page: Page) -> None:
    page.click("toggle")
    page.wait_for_state("listening")
    page.wait_for("document.querySelectorAll('#device option').length > 1")
    page.wait_for("window.cortadoSent.length > 20")
    assert not page.evaluate("document.getElementById('freeze').hidden")
    page.click("freeze")
    end = page.evaluate(f"{PICTURE}.end")
    sent = page.evaluate("window.cortadoSent.length")
    page.wait_for(f"window.cortadoSent.length > {sent + 25}")
    assert page.evaluate(f"{PICTURE}.end") == end
    assert page.text("freeze") == "Follow"
    page.click("freeze")
    page.wait_for(f"{PICTURE}.end > Math.max({end}, window.cortadoSent.length / 25 - 1)")
    page.click("toggle")
    page.wait_for_state("idle")


COUNT = """(() => {
    const plain = CanvasRenderingContext2D.prototype.clearRect;
    window.drawn = 0;
    CanvasRenderingContext2D.prototype.clearRect = function (...area) {
        window.drawn += this.canvas.id === "picture";
        return plain.apply(this, area);
    };
})()"""


def test_a_picture_that_is_switched_off_is_not_drawn_and_comes_back(page: Page) -> None:
    page.click("seen")
    page.evaluate(COUNT)
    page.click("toggle")
    page.wait_for_state("listening")
    page.wait_for("window.cortadoSent.length > 20")
    assert page.evaluate("window.drawn") == 0
    assert not page.evaluate("document.getElementById('picture').checkVisibility()")
    page.click("seen")
    page.wait_for("window.drawn > 3")
    page.click("toggle")
    page.wait_for_state("idle")
    assert page.evaluate("JSON.parse(localStorage.cortado).picture")


def test_the_sound_of_a_tab_is_heard_until_it_is_no_longer_shared(page: Page) -> None:
    page.evaluate(
        """navigator.mediaDevices.getDisplayMedia = async () => {
            const context = new AudioContext();
            const sink = context.createMediaStreamDestination();
            const tone = context.createOscillator();
            tone.connect(sink);
            tone.start();
            window.shared = sink.stream.getAudioTracks()[0];
            return sink.stream;
        }"""
    )
    page.click("share")
    page.wait_for_state("listening")
    page.wait_for("window.cortadoSent.length > 10")
    assert page.evaluate("Number(document.getElementById('meter').ariaValueNow)") > 50
    page.evaluate("window.shared.dispatchEvent(new Event('ended'))")
    page.wait_for_state("idle")
    assert page.evaluate("document.getElementById('failure').hidden")


def test_the_screen_stays_on_while_a_take_runs_and_no_longer(page: Page) -> None:
    page.evaluate(
        """(() => {
            const plain = navigator.wakeLock.request.bind(navigator.wakeLock);
            navigator.wakeLock.request = async (kind) => (window.lock = await plain(kind));
        })()"""
    )
    page.click("sample")
    page.wait_for("window.lock?.released === false")
    page.click("pause")
    page.click("pause")
    page.wait_for_state("listening")
    page.click("toggle")
    page.wait_for_state("idle")
    page.wait_for("window.lock.released")


def test_text_that_was_not_saved_is_not_left_without_a_question(page: Page, tmp_path: Path) -> None:
    page.asked.clear()
    for save in (False, True):
        page.click("sample")
        page.wait_for("document.querySelectorAll('.word').length > 3")
        page.click("toggle")
        page.wait_for_state("idle")
        if save:
            download(page, tmp_path, "srt")
        page.open(page.evaluate("location.href") + "1")
        assert page.asked == ["beforeunload"]


def test_names_to_expect_are_asked_for(page: Page) -> None:
    choose(page, "phrases", r"Ada Lovelace\n Guasimas, Emma;")
    page.click("sample")
    page.wait_for_state("listening")
    asked = page.evaluate("cortadoTake.stream.asked.phrases")
    assert asked == ["Ada Lovelace", "Guasimas", "Emma"]
    page.click("toggle")
    page.wait_for_state("idle")
    choose(page, "phrases", "42")
    page.click("sample")
    page.wait_for("!document.getElementById('failure').hidden")
    assert "names, each with letters" in page.text("failure-advice")
    assert "expected a phrase with letters" in page.text("failure-origin")
    choose(page, "phrases", "")


def test_settings_are_kept_over_a_visit_and_clear_takes_all_away(page: Page) -> None:
    page.evaluate("document.getElementById('download').open = true")
    page.click("clear")
    assert not page.evaluate("document.getElementById('download').open")
    assert page.transcript() == ""
    assert page.evaluate("document.getElementById('sight').hidden")
    assert page.evaluate("document.activeElement.id") == "toggle"
    page.evaluate("document.querySelector('#download summary').focus()")
    page.press("Enter")  # there is nothing to download
    assert not page.evaluate("document.getElementById('download').open")
    before = page.evaluate("getComputedStyle(document.querySelector('.invitation')).fontSize")
    choose(page, "size", "huge")
    choose(page, "theme", "dark")
    assert page.messages == []
    page.open(page.evaluate("location.href") + "2")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("document.getElementById('size').value") == "huge"
    after = page.evaluate("getComputedStyle(document.querySelector('.invitation')).fontSize")
    assert float(after[:-2]) > 1.5 * float(before[:-2])
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 19, 16)"


ALIVE = "import('./{}.js').then((all) => all.{}.prototype)"


def alive(page: Page, module: str, name: str) -> int:
    """Return how many objects of a class the page still has."""
    kind = page.command(
        "Runtime.evaluate", expression=ALIVE.format(module, name), awaitPromise=True
    )
    prototype = kind["result"]["objectId"]
    found = page.command("Runtime.queryObjects", prototypeObjectId=prototype)["objects"]
    count = "function () { return this.length; }"
    asked = {"objectId": found["objectId"], "functionDeclaration": count, "returnByValue": True}
    counted = page.command("Runtime.callFunctionOn", **asked)
    page.command("Runtime.releaseObject", objectId=found["objectId"])  # which holds them all
    return int(counted["result"]["value"])


def test_after_clear_nothing_that_a_microphone_heard_is_left(page: Page) -> None:
    for _ in range(2):
        page.click("toggle")
        page.wait_for_state("listening")
        page.wait_for("window.cortadoSent.length > 20")
        page.click("toggle")
        page.wait_for_state("idle")
    page.click("clear")
    page.evaluate("delete window.cortadoTake, delete window.cortadoSent")
    until = time.monotonic() + 20  # an audio thread ends in its own time
    while alive(page, "sound", "Sound") and time.monotonic() < until:
        time.sleep(0.5)
    assert (alive(page, "sound", "Sound"), alive(page, "take", "Take")) == (0, 0)
