"""Minutes of sound through one stream: nothing grows, drifts or gets stuck."""

import json
from collections import Counter
from dataclasses import asdict
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cortado.clients.bench.endless import run
from cortado.clients.bench.endless.run import Findings, run_day
from cortado.clients.bench.endless.sounds import BLOCK, STRETCHES, Spoken, day, recordings
from cortado.clients.commands.bench_endless import lines
from cortado.tests.model.untrained import TINY, TINY_SEED, noise, untrained

SPEECH = [Spoken(noise(seed, 0.7), "one word") for seed in range(4)]
MINUTES, STRETCH = 0.8, (1.0, 2.0)


@cache
def found() -> Findings:
    with pytest.MonkeyPatch.context() as patch:
        # A few steps are enough where nobody reads the figures.
        patch.setattr(run, "COMPARED_STEPS", 100)
        patch.setattr(run, "WARM_UP", 100)
        return run_day(
            untrained(TINY, TINY_SEED), SPEECH, MINUTES / 60, lambda *progress: None, 0, STRETCH
        )


def test_a_day_has_every_kind_of_sound_and_every_recording() -> None:
    sounds = list(islice(day(SPEECH), (2 * BLOCK + 1) * len(STRETCHES)))
    assert set(STRETCHES) <= {sound.kind for sound in sounds}
    assert set(Counter(sound.recording for sound in sounds)) == {-1, 0, 1, 2, 3}
    for sound in sounds:
        assert sound.samples.dtype == np.float32
        assert np.abs(sound.samples).max() <= 1.01 or sound.kind == "music"
    again = islice(day(SPEECH), len(sounds))
    assert all(map(lambda a, b: np.array_equal(a.samples, b.samples), sounds, again))


def test_a_round_is_every_recording_once_and_each_comes_behind_every_stretch() -> None:
    sounds = islice(day(SPEECH, stretch=(0.1, 0.2)), 2_000)
    heard = [one for one in sounds if one.kind != "pause"]
    spoken = [one.recording for one in heard if one.kind == "speech"]
    for start in range(0, len(spoken) - len(SPEECH), len(SPEECH)):
        assert sorted(spoken[start : start + len(SPEECH)]) == list(range(len(SPEECH)))
    behind = {(a.kind, b.recording) for a, b in pairwise(heard) if a.kind in STRETCHES}
    assert behind == {(kind, k) for kind in STRETCHES for k in range(len(SPEECH))}


def test_times_do_not_drift() -> None:
    assert found().drift_ms < 1e-6


def test_a_stream_does_not_grow() -> None:
    first, last = found().state_bytes
    assert first > 0
    assert abs(last - first) < 4 * 640 + 64  # samples that wait, and digits


def test_a_step_costs_an_old_stream_what_it_costs_a_new_one() -> None:
    new, old = found().step_ms
    assert 0 < new < 2 * old < 4 * new


def test_all_sound_is_heard_and_scored() -> None:
    one = found()
    assert one.hours == pytest.approx(sum(one.seconds.values()) / 3600)
    assert one.hours >= MINUTES / 60
    assert one.rounds >= 2
    assert one.rounds == len(one.scores) // len(SPEECH)
    assert min(one.wer) > 0
    assert one.utterances > 0


def test_characters_a_minute_are_of_the_sound_in_which_they_are_counted() -> None:
    one = found()
    heard = [kind for kind in STRETCHES if kind in one.seconds]
    assert list(one.per_minute) == heard
    assert sum(one.false_characters.values()) > 0
    for kind in heard:
        slower = one.false_characters[kind] * 60 / one.seconds[kind]
        assert one.per_minute[kind] > slower or not one.false_characters[kind]


def test_times_stay_whole_steps_for_a_year() -> None:
    from cortado.model.emission import step_time

    for step in (0, 2_160_000, 2_160_001, 788_400_000):
        assert step_time(step + 1, 2) * 1000 == pytest.approx(40 * step, abs=1e-4)


def test_the_findings_are_told(tmp_path: Path) -> None:
    told = "\n".join(lines(found(), "reference"))
    heard = [kind for kind in STRETCHES if kind in found().seconds]
    assert len(heard) > 2
    for word in (
        *heard,
        "drift",
        "word errors",
        "the first tenth of the rounds",
    ):
        assert word in told
    assert len(json.loads(json.dumps(asdict(found())))["wer"]) == 2


def test_recordings_are_those_of_the_manifest(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", SPEECH[0].samples, 16_000)
    row = {"id": "a", "audio": "a.wav", "duration": 0.7, "speaker": "s", "text": "one word"}
    (tmp_path / "m.jsonl").write_text(json.dumps(row) + "\n")
    [one] = recordings(tmp_path / "m.jsonl")
    assert (len(one.samples), one.text) == (len(SPEECH[0].samples), "one word")


def test_a_day_without_speech_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at least one recording"):
        run_day(untrained(TINY, TINY_SEED), [], 1.0, lambda word, done, total: None)
