"""What the base install does without torch, matplotlib and the other extras."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from cortado import connect
from cortado.tests.clients.serving import ENVIRONMENT, ROOT, serving

LIGHT = (sys.executable, "-m", "cortado.tests.clients.light")

Outcome = tuple[int, str, str]  # exit code, stdout, stderr

WORKS = {
    "info": "parameters",
    "warm": "-beam128-lm is ready after ",
    "transcribe RECORDING": "",
    "transcribe --json RECORDING": '"characters"',
    "evaluate MANIFEST --json OUT/scores.json --html OUT/scores.html --trn OUT/sclite": "WER",
    "lm TEXT -o OUT/words.safetensors": "5 words",
    "prepare folder FOLDER OUT/prepared --workers 1 --text raw": "",
    "replay RECORDED": "the same",
    "bench streams --part engine --count 1 --seconds 0.5 --audio RECORDING": "",
    "bench endless MANIFEST --hours 0.03": "played 0.0",
}
TRAINING = [
    "align RECORDING",
    "train RECIPE",
    "study STUDY",
    "export CHECKPOINT -o OUT/exported",
    "bench attention",
    "evaluate MANIFEST --mode beam",
    "transcribe --backend reference RECORDING",
]
NEEDS = dict.fromkeys(TRAINING, "train") | {
    "mic --list-devices": "mic",
    "serve --vad --port 0": "vad",
    "transcribe --vad RECORDING": "vad",
    "evaluate MANIFEST --normalise whisper": "whisper",
    "deploy ray": "ray",
}
MISSPELT = "transcribe --backend fats RECORDING"


async def say(url: str, samples: NDArray[np.float32]) -> str:
    async with connect(url) as stream:
        await stream.send(samples)
        await stream.end()
        return "".join([chars.text async for chars in stream])


@pytest.fixture(scope="module")
def places(
    tmp_path_factory: pytest.TempPathFactory,
    model: Path,
    recording: Path,
    spoken: NDArray[np.float32],
) -> dict[str, str]:
    """What the words in capitals stand for; a server without torch has made the recording."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "speech").mkdir()
    (folder / "out").mkdir()
    copy = folder / "speech" / "one.wav"
    copy.write_bytes(recording.read_bytes())
    copy.with_suffix(".txt").write_text("the old man walked slowly")
    row = {"id": "one", "audio": "speech/one.wav", "speaker": "a", "text": "the old man"}
    seconds = len(spoken) / 16_000
    (folder / "dev.jsonl").write_text(json.dumps(row | {"duration": seconds}))
    (folder / "text.txt").write_text("the old man walked slowly\n")
    with serving(model, folder / "log", "--record", str(folder / "kept"), start=LIGHT) as server:
        assert httpx.get(f"{server.page}/ready").json() == {"status": "ready"}
        assert "<title>" in httpx.get(server.page).text
        assert asyncio.run(say(server.stream, spoken)).split()
    [recorded] = (folder / "kept").iterdir()
    return {
        "RECORDING": os.fspath(copy),
        "RECORDED": os.fspath(recorded),
        "MANIFEST": os.fspath(folder / "dev.jsonl"),
        "TEXT": os.fspath(folder / "text.txt"),
        "FOLDER": os.fspath(folder / "speech"),
        "OUT": os.fspath(folder / "out"),
        "CHECKPOINT": os.fspath(model),
        "RECIPE": "training/recipes/small-en.toml",
        "STUDY": "training/recipes/compare/study.toml",
    }


@pytest.fixture(scope="module")
def outcomes(places: dict[str, str]) -> dict[str, Outcome]:
    commands = [*WORKS, *NEEDS, MISSPELT]
    filled = []
    for command in commands:
        for word, path in places.items():
            command = command.replace(word, path)
        filled.append(command)
    done = subprocess.run(
        [*LIGHT, *filled], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: list[Outcome] = json.loads(done.stdout)
    return dict(zip(commands, found, strict=True))


@pytest.mark.parametrize("command", WORKS)
def test_this_works(command: str, outcomes: dict[str, Outcome]) -> None:
    code, out, err = outcomes[command]
    assert (code, out) == (0, out), err
    assert out.strip()
    assert WORKS[command] in out


@pytest.mark.parametrize("command", NEEDS)
def test_what_needs_an_extra_names_it_on_one_line(
    command: str, outcomes: dict[str, Outcome]
) -> None:
    code, out, err = outcomes[command]
    extra = NEEDS[command]
    assert (code, out) == (2, "")
    assert err.startswith("cortado: this needs ") or extra != "train"
    assert err.endswith(
        f"of the extra cortado-asr[{extra}]; in a clone: make install EXTRAS={extra}\n"
    )
    assert err.count("\n") == 1


def test_a_misspelt_backend_needs_no_torch(outcomes: dict[str, Outcome]) -> None:
    code, out, err = outcomes[MISSPELT]
    assert (code, out) == (2, "")
    assert err.startswith("cortado: expected a backend among auto, fast, ")
    assert err.endswith(", got 'fats'\n")


def test_evaluation_without_torch_says_what_it_leaves_out(
    outcomes: dict[str, Outcome], places: dict[str, str]
) -> None:
    [command] = [one for one in WORKS if one.startswith("evaluate")]
    assert outcomes[command][2] == (
        "cortado: no emission delays and pictures of attention: this needs torch, of the extra "
        "cortado-asr[train]; in a clone: make install EXTRAS=train\n"
    )
    [scores] = json.loads((Path(places["OUT"]) / "scores.json").read_text())["sets"]
    assert (scores["utterances"], scores["delay"]) == (1, None)
