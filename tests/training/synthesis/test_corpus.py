import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from cortado.tests import needs
from cortado.tests.server.running import wait_for
from cortado.tests.training.recorded import rows_of
from cortado.training.data.opus import write_opus
from cortado.training.synthesis.corpus import (
    SynthConfig,
    SynthError,
    cut_text,
    plan,
    sentences,
    synthesise,
)
from cortado.training.synthesis.engines import EngineError, Voice, installed_engines, speak

LINES = [
    "the quick brown fox jumps over the lazy dog",
    "it's a long way to the top of the hill and back again before the sun goes down",
    "yes",
    "she had not seen her brother's house since the war",
]
VOICES = {"espeak-ng": ("en-us", "en-gb"), "flite": ("rms", "slt")}


@pytest.fixture
def config(tmp_path: Path) -> SynthConfig:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES) + "\n")
    return SynthConfig(
        text=text, output=tmp_path / "out", count=10, seed=3, engines={"espeak-ng": 1.0}
    )


def program(folder: Path, name: str, script: str) -> None:
    """Put a shell script into `folder` under the name of an engine."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@needs.espeak
def test_a_corpus_has_a_manifest_with_exact_durations_and_16_khz_mono_audio(
    config: SynthConfig,
) -> None:
    written = rows_of(synthesise(config))
    assert [row["id"] for row in written] == [f"synth-3-{index:07d}" for index in range(10)]
    for row in written:
        samples, rate = soundfile.read(config.output / row["audio"])
        assert (rate, samples.ndim) == (16000, 1)
        assert row["duration"] == len(samples) / 16000
        assert 0.3 < row["duration"] < 15
        assert np.sqrt(np.mean(np.square(samples))) > 1e-3
        assert row["text"] in " | ".join(LINES)
        assert row["speaker"].startswith("espeak-ng-en")


@needs.espeak
def test_the_number_of_workers_changes_no_byte(config: SynthConfig, tmp_path: Path) -> None:
    alone = synthesise(config)
    together = synthesise(replace(config, output=tmp_path / "other", workers=2))
    assert alone.read_text() == together.read_text()
    for row in rows_of(alone):
        one, other = (folder.parent / row["audio"] for folder in (alone, together))
        assert one.read_bytes() == other.read_bytes()


@needs.espeak
def test_a_rerun_makes_only_what_is_missing(config: SynthConfig) -> None:
    manifest = synthesise(replace(config, count=8))
    whole = rows_of(manifest)
    kept, lost, torn = (config.output / whole[index]["audio"] for index in (0, 3, 7))
    before = kept.stat().st_mtime_ns
    sound = lost.read_bytes()
    lost.unlink()
    manifest.write_text(manifest.read_text()[:-20])
    torn.write_bytes(b"half")
    calls: list[tuple[int, int]] = []
    synthesise(config, lambda done, n: calls.append((done, n)))
    assert calls == [(done, 10) for done in range(6, 11)]
    assert rows_of(manifest)[:8] == whole
    assert kept.stat().st_mtime_ns == before
    assert lost.read_bytes() == sound
    assert torn.stat().st_size > 4


@needs.espeak
def test_a_killed_run_leaves_no_process_behind_and_a_rerun_completes_the_corpus(
    config: SynthConfig, tmp_path: Path
) -> None:
    script = (
        "from pathlib import Path\n"
        "from cortado.training.synthesis.corpus import SynthConfig, synthesise\n"
        "if __name__ == '__main__':\n"
        f"    synthesise(SynthConfig(Path({str(config.text)!r}), Path({str(config.output)!r}), "
        "400, seed=3, workers=2, engines={'espeak-ng': 1.0}))\n"
    )
    (tmp_path / "run.py").write_text(script)
    run = subprocess.Popen([sys.executable, str(tmp_path / "run.py")])
    manifest = config.output / "manifest.jsonl"
    assert wait_for(lambda: manifest.exists() and len(manifest.read_bytes()) > 100)
    family = psutil.Process(run.pid).children(recursive=True)
    assert len(family) > 1
    run.kill()
    run.wait()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    count = len(manifest.read_bytes().splitlines()) + 2
    assert count < 400
    done: list[int] = []
    synthesise(replace(config, count=count), lambda now, _: done.append(now))
    assert 1 <= done[0] < done[-1] == count
    assert len(rows_of(manifest)) == count


@needs.espeak
def test_a_folder_of_another_corpus_is_refused_by_the_name_of_what_differs(
    config: SynthConfig,
) -> None:
    synthesise(replace(config, count=1))
    with pytest.raises(ValueError, match="expected seed 3, got 4"):
        synthesise(replace(config, seed=4))


@needs.espeak
def test_an_engine_that_fails_is_replaced_by_espeak_and_the_manifest_says_so(
    config: SynthConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "flite", '[ "$1" = -lv ] && echo "Voices available: rms" || exit 1')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    (row,) = rows_of(synthesise(replace(config, count=1, engines={"flite": 1.0})))
    assert row["engine"] == "espeak-ng"
    assert "flite (rms)" in row["fallback"]


def test_utterances_that_no_engine_speaks_are_reported_and_tried_again(
    config: SynthConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "espeak-ng", "exit 1")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
        with pytest.raises(SynthError, match="expected 2 utterances, 2 of them failed"):
            synthesise(replace(config, count=2))
    if shutil.which("espeak-ng"):
        assert len(rows_of(synthesise(replace(config, count=2)))) == 2


def test_without_any_engine_the_error_names_the_debian_packages(
    config: SynthConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="apt-get install espeak-ng flite"):
        synthesise(replace(config, engines={"espeak-ng": 1.0, "flite": 1.0}))


@pytest.mark.parametrize("engine", ["espeak-ng", "flite", "festival"])
def test_each_installed_voice_speaks_at_a_human_rate_and_follows_the_tempo(engine: str) -> None:
    names = installed_engines().get(engine)
    if names is None:
        pytest.skip(f"{engine} is not installed")
    for name in set(names) - {"cmu_us_slt_arctic_hts"}:  # it has one tempo only
        seconds = []
        for rate in (0.8, 1.25):
            samples, hertz = speak(LINES[1], Voice(engine, name, rate, pitch=0.5, word_gap=0))
            seconds.append(len(samples) / hertz)
        assert 8 < len(LINES[1]) / np.mean(seconds) < 25, name
        assert 1.25 < seconds[0] / seconds[1] < 1.75, name


@needs.espeak
def test_an_engine_that_swallows_the_text_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("espeak-ng")
    script = f'for last; do :; done; echo a | {real} --stdin -w "$last"'
    program(tmp_path, "espeak-ng", script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(EngineError, match="swallowed words"):
        speak(" ".join(LINES), Voice("espeak-ng", "en-us", 1.0, 0.5, 0))


def test_opus_keeps_every_length_to_the_sample(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 20000).astype(np.float32)
    for length in (*range(1700, 2100, 7), *range(15500, 16200, 7)):
        write_opus(tmp_path / "noise.opus", noise[:length])
        samples, _ = soundfile.read(tmp_path / "noise.opus")
        assert len(samples) == length


def test_a_draw_depends_on_the_seed_and_its_number_alone(config: SynthConfig) -> None:
    both = replace(config, engines={"espeak-ng": 0.5, "flite": 0.5})
    many = plan(replace(both, count=50, workers=2), LINES, VOICES)
    assert plan(both, LINES, VOICES) == many[:10]
    assert plan(replace(both, seed=4), LINES, VOICES)[0].effects != many[0].effects
    assert {one.voice.engine for one in many} == {"espeak-ng", "flite"}


@given(seed=st.integers(0, 2**32 - 1))
def test_a_cut_is_a_run_of_whole_words_within_the_limits(seed: int) -> None:
    line = " ".join([LINES[1]] * 5)
    cut = cut_text(line, np.random.default_rng(seed))
    assert f" {cut} " in f" {line} "
    assert 1 <= len(cut.split(" ")) <= 14 or len(cut) > 200  # a whole line, as far as it may go
    assert len(cut) <= 220


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("fine\nfour 4\n", "line 2: expected a-z, ' and space, got '4'"),
        ("Fine\n", "line 1: expected a-z, ' and space, got 'F'"),
        ("caf\u00e9\n", "line 1"),
        ("rock ' roll\n", "line 1: expected words, got a lone apostrophe"),
        ("\n", "got an empty file"),
    ],
)
def test_a_line_that_is_not_plain_words_is_an_error_that_names_it(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "text.txt"
    for encoding in ("utf-8", "latin-1"):
        path.write_text(content, encoding=encoding)
        with pytest.raises(ValueError, match=message):
            sentences(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engines": {"sam": 1.0}}, "got 'sam'"),
        ({"engines": {"flite": 0.0}}, "expected engine shares"),
        ({"engines": {}}, "expected engine shares"),
        ({"count": 0}, "expected count >= 1, got 0"),
    ],
)
def test_a_setting_out_of_its_range_is_an_error_that_says_what_was_expected(
    config: SynthConfig, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(config, **change)
