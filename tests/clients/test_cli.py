"""The console command: help, version, exit codes, and one line for a user's mistake."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cortado.clients import cli
from cortado.model.attention import AttentionConfig
from cortado.model.backends.choice import load_recognizer
from cortado.model.checkpoint import save
from cortado.model.checkpoint_reader import CARD
from cortado.model.config import DecoderConfig, RecognizerConfig
from cortado.model.recognizer import Recognizer
from cortado.tests import needs
from cortado.tests.clients.serving import ROOT

COMMANDS = list(cli.COMMANDS)
BENCHES = ["bench attention", "bench streams"]

BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

Capture = pytest.CaptureFixture[str]


def test_help_lists_every_command(capsys: Capture) -> None:
    assert cli.main(["--help"]) == 0
    assert "\n  bench streams    Measure " in capsys.readouterr().out
    modules = {path.stem for path in (ROOT / "clients" / "commands").glob("[a-z]*.py")}
    unlisted = modules - {name.replace(" ", "_") for name in COMMANDS}
    assert unlisted == {"cluster", "failures", "terminal"}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself_with_examples_that_its_options_allow(
    command: str, capsys: Capture
) -> None:
    assert cli.main([*command.split(), "-h"]) == 0
    text, _, examples = capsys.readouterr().out.partition("Examples:")
    assert f" {cli.COMMANDS[command]} " in " ".join(text.split())
    assert text.startswith(f"Usage: cortado {command} ")
    lines = [line for line in examples.strip().splitlines() if line]
    assert lines
    for line in lines:
        assert f"cortado {command}" in line
        for option in re.findall(r" (--?[a-z][a-z-]*)", line):
            assert re.search(rf"{option}\b", text), f"{line}: no option {option}"


def test_help_answers_at_once_because_nothing_heavy_is_imported() -> None:
    heavy = "{'typer', 'torch', 'numpy', 'fastapi', 'pydantic_settings', 'rich', 'av'}"
    code = (
        "import sys; from cortado.clients.cli import main; code = main(['--help']);"
        f"sys.exit(code or ' '.join({heavy} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_has_words_in_place_of_types(command: str, capsys: Capture) -> None:
    assert cli.main([*command.split(), "--help"]) == 0
    assert re.findall(r"^ .*<.*>", capsys.readouterr().out, re.MULTILINE) == []


def test_the_servers_help_says_what_its_settings_are(capsys: Capture) -> None:
    assert cli.main(["serve", "--help"]) == 0
    said = capsys.readouterr().out
    for one in ("--port NUMBER", "--keys PATH", "--host TEXT", "--log-format text|json"):
        assert one in said


def test_the_version_is_that_of_the_project(capsys: Capture) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"cortado {project['version']}\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("frobnicate", "expected a command, got 'frobnicate': cortado --help lists them"),
        ("trancribe talk.wav", "expected a command, got 'trancribe': is transcribe meant?"),
        ("--frobnicate", "expected a command, got '--frobnicate': cortado --help lists them"),
        ("info --frobnicate", "no such option: --frobnicate; cortado info --help explains"),
        ("transcribe", "missing argument 'files'; cortado transcribe --help explains"),
        ("serve --frobnicate", "no such option: --frobnicate; cortado serve --help explains"),
        ("bench strems", "expected a command, got 'bench strems': is bench streams "),
    ],
)
def test_what_no_command_understands_is_one_line_with_what_to_do(
    line: str, said: str, capsys: Capture
) -> None:
    assert cli.main(line.split()) == 2
    assert one_line(capsys).startswith(f"cortado: {said}")


def one_line(capsys: Capture) -> str:
    """Return the one line that a failed command wrote, on stderr."""
    streams = capsys.readouterr()
    assert streams.out == ""
    [line] = streams.err.splitlines()
    return line


def test_no_command_at_all_shows_the_help_and_is_exit_code_2(capsys: Capture) -> None:
    assert cli.main([]) == cli.main(["bench"]) == 2
    assert "Commands:" in "".join(capsys.readouterr())


def test_a_users_mistake_is_one_line_and_exit_code_2(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["info", str(tmp_path / "absent")]) == 2
    line = one_line(capsys)
    assert line.startswith("cortado: expected a checkpoint at ")
    assert "absent" in line


def test_a_setting_that_cannot_be_used_is_named_by_its_flag(capsys: Capture) -> None:
    assert cli.main(["serve", "--port", "many"]) == 2
    line = one_line(capsys)
    assert line.startswith("cortado: --port")
    assert "many" in line


def test_the_traceback_of_a_users_mistake_is_there_for_those_who_want_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORTADO_TRACEBACK", "1")
    with pytest.raises(ValueError, match="expected a checkpoint"):
        cli.main(["info", str(tmp_path)])


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("expected one\n line,  got two"), 2, "expected one line, got two"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=["value", "ctrl-c"],
)
def test_the_exit_code_tells_what_stopped_a_command(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def stop(folder: Path) -> None:
        raise error

    monkeypatch.setattr("cortado.model.description.describe", stop)
    assert cli.main(["info"]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate dev.jsonl", "bench endless dev.jsonl", *BENCHES])
def test_whoever_writes_json_says_at_once_where_it_cannot(command: str, capsys: Capture) -> None:
    assert cli.main([*command.split(), "--json", "nowhere/found.json"]) == 2
    line = one_line(capsys)
    assert line == "cortado: expected a file in a folder that exists, got nowhere/found.json"


def test_two_outputs_in_one_file_are_refused(capsys: Capture) -> None:
    assert cli.main(["evaluate", "dev.jsonl", "--json", "x", "--html", "./x"]) == 2
    assert one_line(capsys) == "cortado: expected a file for each output, got x twice"


@pytest.mark.parametrize(
    ("line", "given", "said"),
    [
        *(
            pytest.param(
                f"{command} > /dev/full",
                "",
                "standard output: No space left on device",
                marks=needs.full_disk,
            )
            for command in ("info", "--help")
        ),
        ("transcribe -", "no audio", "standard input: expected wav, flac, .* broken format"),
        ("transcribe -", "", "standard input: expected wav, flac, .*, got nothing"),
        ("transcribe - <&-", "", "standard input: expected a readable file, got 'Bad file desc"),
        ("replay /dev/stdin", "", "/dev/stdin: expected a whole recording of version 1, got a f"),
        ("replay {this}", "", r".*, got a file that begins with '\"\"\"The console command"),
    ],
)
def test_what_is_wrong_with_a_file_says_which_one_and_what_it_is(
    line: str, given: str, said: str
) -> None:
    command = f"{sys.executable} -m cortado.clients.cli {line.format(this=__file__)}"
    done = subprocess.run(
        command, input=given, shell=True, capture_output=True, text=True, env=BUFFERED
    )
    assert done.returncode == 2
    assert re.match(f"cortado: {said}", done.stderr)


def test_whoever_reads_no_more_or_not_at_all_hears_of_no_fault() -> None:
    line = [sys.executable, "-m", "cortado.clients.cli", "--help"]
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "w") as unread:
        done = subprocess.run(line, stdout=unread, stderr=subprocess.PIPE, env=BUFFERED)
    assert (done.returncode, done.stderr) == (1, b"")
    done = subprocess.run(f"{' '.join(line)} >&-", shell=True, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("cortado.model.description.describe", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        cli.main(["info"])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "untrained"
    scores = [{"name": "dev", "wer": 0.51234, "cer": 0.25}]
    save(Recognizer(RecognizerConfig()), folder, {"updates": 12, "scores": scores})
    return folder


def test_info_describes_a_checkpoint_in_lines(checkpoint: Path, capsys: Capture) -> None:
    assert cli.main(["info", os.fspath(checkpoint)]) == 0
    lines = dict(
        re.split(r"\s{2,}", line, maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert lines["model"] == "untrained"
    assert lines["look-ahead"] == "110 ms, and a window of 25 ms"
    assert lines["step"] == "40 ms of audio"
    assert lines["updates"] == "12"
    assert lines["dev"] == "WER 51.2%, CER 25.0%"


def test_info_as_json_agrees_with_the_checkpoint(checkpoint: Path, capsys: Capture) -> None:
    assert cli.main(["info", "--json", os.fspath(checkpoint)]) == 0
    found = json.loads(capsys.readouterr().out)
    written = json.loads((checkpoint / CARD).read_text())
    assert found["card"] == written["card"]
    for name in ("parameters", "lookahead_ms", "sample_rate"):
        assert found[name] == written[name]
    assert 0 < found["state_bytes"] < 500_000


def test_info_states_the_memory_of_the_backend_that_serves(
    checkpoint: Path, capsys: Capture
) -> None:
    serving = load_recognizer(checkpoint)
    assert cli.main(["info", os.fspath(checkpoint)]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("memory")]
    own = serving.stepper(1).bytes_per_stream
    assert line.endswith(f"{own:,} bytes of state per stream in {serving.name}, which serves")


def test_info_says_why_nothing_streams_a_model(tmp_path: Path, capsys: Capture) -> None:
    soft = DecoderConfig(attention=AttentionConfig(kind="soft"))
    save(Recognizer(RecognizerConfig(decoder=soft)), tmp_path)
    assert cli.main(["info", os.fspath(tmp_path)]) == 0
    assert "no streams: expected a monotonic attention" in capsys.readouterr().out
    assert cli.main(["info", "--json", os.fspath(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["backend"], found["state_bytes"]) == (None, None)


def test_a_file_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "absent"]) == 2
    assert one_line(capsys) == "cortado: absent: No such file or directory"
    assert list(tmp_path.iterdir()) == []
