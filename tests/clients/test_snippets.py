"""The Python of the pages runs as it stands there."""

import ast
import asyncio
import inspect
import re
import shutil
import sys
from pathlib import Path

import pytest

import cortado
from cortado.clients import speech
from cortado.model.audio.decode import decode
from cortado.tests.clients import sounddevice
from cortado.tests.clients.serving import ROOT, Served

SERVER = speech.SERVER
PAGES = ("README.md", "docs/guide.md", "docs/python.md", "docs/streams.md")
ELSEWHERE = {"docs/doors.md"}  # run by test_doors_page.py


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_its_first_snippet_to_its_last(
    page: str,
    server: Served,
    recording: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(recording, tmp_path / "talk.wav")
    phrases = ("turn the light on", " ".join(cortado.transcribe(recording).text.split()[:-1]))
    (tmp_path / "commands.txt").write_text("\n".join(phrases))  # docs/guide.md
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAV", str(recording))
    monkeypatch.setitem(sys.modules, "sounddevice", sounddevice)
    monkeypatch.setattr(speech, "SERVER", server.stream)
    # What docs/streams.md leaves to the reader.
    names: dict[str, object] = {"samples": decode(recording)}
    names |= dict.fromkeys(("url", "other_url"), server.stream)
    for snippet in snippets(page):
        code = snippet.replace(SERVER, server.stream)
        compiled = compile(code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(compiled, names)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    assert len(f"{capsys.readouterr().out} {names.get('text', '')}".split()) > 12


def test_no_page_with_python_is_left_out() -> None:
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}
    assert {page for page in pages if snippets(page)} == set(PAGES[1:]) | ELSEWHERE
