"""The web page's files: whole, from nowhere else, and each module tested under node."""

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.search.phrases import NODES
from cortado.model.streaming.options import MAX_PHRASE, MAX_PHRASES
from cortado.server.protocol.messages import ErrorCode
from cortado.tests import needs

WEB = Path(__file__).parent.parent.parent / "clients" / "web"
NODE_TESTS = sorted((Path(__file__).parent / "web").glob("*.test.js"))
SCRIPTS = sorted(WEB.glob("*.js"))
SAMPLE = "sample.webm"
README = "README.md"  # of the packed client; the page does not load it
TEXTS = sorted(path for path in WEB.iterdir() if path.name not in {SAMPLE, README})

# What only a wrong client can cause is told by the server's own sentence.
CAUSED_BY_CLIENTS = {
    ErrorCode.INVALID_MESSAGE,
    ErrorCode.UNEXPECTED_MESSAGE,
    ErrorCode.UNSUPPORTED_ENCODING,
    ErrorCode.UNSUPPORTED_SAMPLE_RATE,
    ErrorCode.INVALID_AUDIO,
    ErrorCode.MESSAGE_TOO_BIG,
    ErrorCode.INVALID_STATE,  # with these two the page begins a new stream
    ErrorCode.UNKNOWN_STREAM,
}
MAX_BYTES = 300_000  # of the whole page, sample and all


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
    node = needs.program("node", "nodejs")
    done = subprocess.run([node, "--test", path], capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in WEB.iterdir()) < MAX_BYTES


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for path in TEXTS:
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
    pages = {"v1/info"}  # of the server
    others = {"index.html", "package.json", "stream.d.ts", SAMPLE, README}
    assert (linked | imported | others) - pages == files
    assert f'FILE = "{SAMPLE}"' in (WEB / "sample.js").read_text()


def test_every_module_is_asked_for_at_once_not_one_after_another(page: Tags) -> None:
    found, waiting = set[str](), ["app.js"]
    while waiting:
        text = (WEB / waiting.pop()).read_text()
        more = set(re.findall(r'from "\./([\w-]+\.js)"', text)) - found
        found |= more
        waiting += more
    preloaded = [one["href"] for _, one in page.tags if one.get("rel") == "modulepreload"]
    assert preloaded == sorted(found)


def test_the_limits_of_names_are_the_server_s(page: Tags) -> None:
    settings, html = ((WEB / name).read_text() for name in ("settings-form.js", "index.html"))
    for name, limit in (("MOST", MAX_PHRASES), ("LONGEST", MAX_PHRASE), ("LETTERS", NODES - 1)):
        assert f"const {name} = {limit};" in settings
    assert f"{MAX_PHRASES} names and {NODES - 1} letters at most" in html
    advice = f"up to {MAX_PHRASES} names, each with letters and of at most {MAX_PHRASE} characters"
    assert advice in (WEB / "failures.js").read_text()
    assert f"{NODES - 1} letters in all" in (WEB / "failures.js").read_text()


@needs.installed("npm")
def test_the_packed_client_is_imported_by_its_name_in_node(tmp_path: Path) -> None:
    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    archive = run("npm", "pack", "--silent", str(WEB)).split()[-1]
    run("npm", "install", "--offline", f"./{archive}")
    installed = tmp_path / "node_modules" / "cortado-asr"
    assert (installed / "stream.d.ts").exists()
    assert "npm install ../cortado/clients/web " in (installed / README).read_text()
    code = """import("cortado-asr").then(({ Stream }) =>
        console.log(new Stream("ws://h/", {}, { WebSocket: 1 }).state))"""
    assert run("node", "-e", code) == "new\n"


def test_the_types_name_what_a_stream_has() -> None:
    body = (WEB / "stream.js").read_text().split("export class Stream {")[1].split("\n}")[0]
    members = re.findall(r"^  (?:get |async )?([a-z]\w*)\(.*\{$", body, re.MULTILINE)
    typed = (WEB / "stream.d.ts").read_text().split("export class Stream {")[1]
    stated = re.findall(r"^  (?:readonly )?(\w+)[:(]", typed, re.MULTILINE)
    assert set(stated) == set(members) | {"state"}


def test_every_element_that_the_scripts_reach_for_is_on_the_page(page: Tags) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    scripts = "".join(script.read_text() for script in SCRIPTS)
    used = set(re.findall(r'(?:byId|getElementById)\("([\w-]+)"\)', scripts))
    assert used <= set(ids)


def test_the_page_cuts_sound_as_the_model_steps() -> None:
    text = (WEB / "pcm.js").read_text()
    assert f"SAMPLE_RATE = {SAMPLE_RATE};" in text
    assert f"FRAME = {SAMPLES_PER_STEP};" in text


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - CAUSED_BY_CLIENTS))
def test_every_error_of_the_server_that_a_speaker_can_meet_has_words(code: ErrorCode) -> None:
    assert re.search(rf"^  {code.value}: \[", (WEB / "failures.js").read_text(), re.MULTILINE)
