"""The page as somebody hears it who does not see it, in a real Chromium."""

from itertools import groupby
from pathlib import Path

from cortado.tests import needs
from cortado.tests.clients.accessibility import (
    CONTROLS,
    LANDMARKS,
    Node,
    announced,
    listen,
    named,
    read,
    text,
)
from cortado.tests.clients.chromium import Page
from cortado.tests.clients.cutting import way_to
from cortado.tests.clients.serving import Served

pytestmark = needs.in_chromium

SOURCES = ["Hear a sample", "Open a recording", "Share a tab’s sound"]
AT_REST = ["How it was tested", "Start", "Loudness", *SOURCES, "Copy", "Download", "Clear"]
AT_REST += ["Captions", "Settings"]
PICTURE = "Sound and characters over time"


def names(nodes: list[Node]) -> list[str]:
    """Return the names of all controls, in the order of reading."""
    return [name for _, name in named(nodes, CONTROLS)]


def menus(nodes: list[Node], name: str) -> list[Node]:
    return [one for one in nodes if one.name == name and "expanded" in one.states]


def speak(page: Page) -> None:
    page.wait_for("!document.getElementById('errors').hidden")
    page.click("sample")
    page.wait_for_state("listening")


def test_at_rest_the_page_has_a_heading_landmarks_in_order_and_a_name_for_each_control(
    page: Page,
) -> None:
    page.wait_for("!document.getElementById('errors').hidden")
    nodes = read(page)
    landmarks = named(nodes, LANDMARKS)
    assert [role for role, _ in landmarks] == ["banner", "main", "region", "region"]
    assert [name for _, name in landmarks if name] == ["Transcript", "Controls"]
    assert named(nodes, {"heading"}) == [("heading", "Cortado")]
    assert names(nodes) == AT_REST
    buttons = {"Start", *SOURCES, "Copy", "Clear", "Captions"}
    assert {("meter", "Loudness")} | {("button", name) for name in buttons} <= set(
        named(nodes, CONTROLS)
    )
    assert "Press Start and speak." in text(nodes)
    cannot = {one.name for one in nodes if one.states.get("disabled")}
    assert cannot == {"Copy", "Download", "Clear"}


def test_speech_is_announced_by_utterances_and_each_change_of_state_once(page: Page) -> None:
    listen(page)
    speak(page)
    page.wait_for("document.querySelectorAll('.word').length > 3")
    nodes = read(page)
    assert names(nodes)[:6] == ["How it was tested", PICTURE, "Freeze", "Stop", "Pause", "Loudness"]
    live = [one.states["live"] for one in nodes if one.states.get("root") or "live" in one.states]
    assert "polite" in live
    page.wait_for_state("idle", seconds=90)
    *said, end = announced(page, "spoken")
    assert " ".join(said) == " ".join(page.transcript().split())
    lines = page.transcript()
    assert len(said) <= lines.count("\n") + 1 + len(lines) // 80, "no letters, and no single words"
    assert end.startswith("The sample, ")
    # A machine that is busy may say in between that its connection is slow.
    calm = [one for one in announced(page, "status") if one != "Slow connection"]
    states = [one for one, _ in groupby(calm)]
    expected = ["Loading the sample", "Connecting", "Listening", "Waiting for the last characters"]
    assert states == [one for one in expected if one in states], "each once, in order"
    assert set(expected[2:]) <= set(states)


def test_after_speech_the_text_stands_there_once_and_the_picture_says_what_it_shows(
    page: Page, recording: Path
) -> None:
    listen(page)
    page.hear_file(recording)
    [end] = announced(page, "spoken")
    assert end.startswith("speech.wav, "), "a file is read, not read out"
    page.wait_for("!document.getElementById('spoken').childElementCount")
    nodes = read(page)
    assert text(nodes).count(" ".join(page.transcript().split("\n")[0].split())) == 1
    # Chromium's protocol leaves the text of a slider's value out of the tree.
    told = page.evaluate("document.getElementById('picture').ariaValueText")
    assert page.transcript().split()[-1] in told
    assert names(nodes) == ["How it was tested", PICTURE, "Play", *AT_REST[1:]]
    assert ("slider", PICTURE) in named(nodes, CONTROLS)
    doubtful = page.evaluate("document.querySelectorAll('.word.doubtful').length")
    assert sum(one.role == "mark" for one in nodes) == doubtful


def test_a_lost_connection_and_its_return_are_announced_once_each(
    page: Page, server: Served
) -> None:
    with way_to(server.port) as way:
        page.open(f"http://127.0.0.1:{way.port}/?debug=1")
        listen(page)
        speak(page)
        page.wait_for("window.cortadoSent.length > 50")
        way.open = False
        way.cut()
        page.wait_for("document.body.dataset.link === 'lost'")
        way.open = True
        page.wait_for("document.body.dataset.link === 'open'")
        page.wait_for_state("idle", seconds=90)
    states = announced(page, "status")
    lost = states.index("Connection lost; what you say is kept")
    assert states[lost + 1] == "Connected again, nothing was lost"
    assert len(states) <= 7, "what counts is not read out"


def test_an_open_menu_says_so_and_names_its_controls(page: Page) -> None:
    page.evaluate("document.querySelector('#settings summary').click()")
    nodes = read(page)
    [menu] = menus(nodes, "Settings")
    assert menu.states["expanded"] is True
    inside = named(nodes, CONTROLS)[-7:]
    roles = ["combobox", "checkbox", "textbox", "checkbox", "combobox", "combobox"]
    assert [role for role, _ in inside[1:]] == roles
    wanted = ["Settings", "Microphone", "Let the browser clean up the sound"]
    wanted += ["Names and words to expect", "Show the picture of the sound"]
    wanted += ["Type size", "Colours"]
    for (_, name), beginning in zip(inside, wanted, strict=True):
        assert name.startswith(beginning)
    page.evaluate("document.querySelector('#settings summary').click()")
    [menu] = menus(read(page), "Settings")
    assert menu.states["expanded"] is False


def test_an_open_dialog_is_all_that_is_read_until_it_is_closed(page: Page) -> None:
    page.wait_for("!document.getElementById('errors').hidden")
    page.evaluate("document.getElementById('about-open').focus()")
    page.press("Enter")
    nodes = read(page)
    assert named(nodes, {"dialog"}) == [("dialog", "How often it errs")]
    headings = named(nodes, {"heading"})
    assert headings == [("heading", "How often it errs"), ("heading", "The sample")]
    assert names(nodes) == ["Close", "All facts as JSON"]
    assert page.evaluate("document.activeElement.id") == "about-close"
    page.press("Escape")
    assert page.evaluate("document.activeElement.id") == "about-open"
    assert names(read(page)) == AT_REST


def test_an_error_is_announced_with_what_helps(page: Page) -> None:
    listen(page)
    page.answer("microphone", "denied")
    page.click("toggle")
    page.wait_for("!document.getElementById('failure').hidden")
    [said] = announced(page, "failure")
    assert said.startswith("The microphone was not allowed. Allow it for this page")
    assert "Try again" in names(read(page))
    page.click("retry")
    page.wait_for("window.announced.filter(([region]) => region === 'failure').length === 2")
    page.answer("microphone")
