"""The web page's files: whole, from nowhere else, and each module tested under node."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.server.protocol.messages import ErrorCode

WEB = Path(__file__).parent.parent.parent / "clients" / "web"
NODE_TESTS = sorted((Path(__file__).parent / "web").glob("*.test.js"))
SCRIPTS = sorted(WEB.glob("*.js"))

# What only a wrong client can cause is told by the server's own sentence.
CAUSED_BY_CLIENTS = {
    ErrorCode.INVALID_MESSAGE,
    ErrorCode.UNEXPECTED_MESSAGE,
    ErrorCode.UNSUPPORTED_ENCODING,
    ErrorCode.UNSUPPORTED_SAMPLE_RATE,
    ErrorCode.INVALID_AUDIO,
    ErrorCode.MESSAGE_TOO_BIG,
    ErrorCode.INVALID_STATE,  # the page neither suspends streams
    ErrorCode.UNKNOWN_STREAM,  # nor asks for them to be kept
    ErrorCode.TAKEN_OVER,
}


class Tags(HTMLParser):
    """The tags of a page with their attributes, and the text inside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in {"script", "style"}:
            self.inline += data.strip()


@pytest.fixture(scope="module")
def page() -> Tags:
    return Tags((WEB / "index.html").read_text())


@pytest.mark.parametrize("path", NODE_TESTS, ids=lambda path: path.name)
def test_the_modules_pass_their_tests_under_node(path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the page's modules with (apt install nodejs)")
    done = subprocess.run([node, "--test", path], capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for path in WEB.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|wss?://|//[a-z-]+\.[a-z]+/", text), path.name


def test_the_page_runs_under_a_policy_that_forbids_whatever_is_inline(page: Tags) -> None:
    assert page.inline == ""
    for tag, attributes in page.tags:
        handlers = [name for name in attributes if name.startswith("on") or name == "style"]
        assert handlers == [], tag
    for script in SCRIPTS:
        assert not re.search(
            r"\beval\(|new Function|innerHTML|\.cssText|document\.write", script.read_text()
        )


def test_every_file_that_is_named_is_there_and_every_file_is_named(page: Tags) -> None:
    linked = {
        value
        for _, attributes in page.tags
        for name in ("src", "href")
        if (value := attributes.get(name))
    }
    imported = {
        name
        for script in SCRIPTS
        for name in re.findall(r'(?:from |URL\()"(?:\./)?([\w-]+\.js)"', script.read_text())
    }
    files = {path.name for path in WEB.iterdir()}
    assert linked | imported | {"index.html", "package.json"} == files


def test_every_element_that_the_scripts_reach_for_is_on_the_page(page: Tags) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'byId\("([\w-]+)"\)', (WEB / "app.js").read_text()))
    assert used <= set(ids)


def test_the_page_cuts_sound_as_the_model_steps() -> None:
    text = (WEB / "pcm.js").read_text()
    assert f"SAMPLE_RATE = {SAMPLE_RATE};" in text
    assert f"FRAME = {SAMPLES_PER_STEP};" in text


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - CAUSED_BY_CLIENTS))
def test_every_error_of_the_server_that_a_speaker_can_meet_has_words(code: ErrorCode) -> None:
    assert re.search(rf"^  {code.value}: \[", (WEB / "failures.js").read_text(), re.MULTILINE)
