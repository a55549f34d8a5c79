"""Silero's detector: what it hears, in any company, and where it lets utterances end."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.model.audio.decode import decode
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE, SAMPLES_PER_STEP
from cortado.model.streaming.endpoint import QUIET_RULES, Rule
from cortado.model.streaming.live import LiveStream
from cortado.model.streaming.options import StreamOptions
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.recordings import transcribe_many
from cortado.model.streaming.snapshot import Snapshot, SnapshotError
from cortado.model.streaming.update import Update
from cortado.model.streaming.vad import SPEECH, TILE, Vad, load_vad
from cortado.tests import needs
from cortado.tests.model.untrained import noise, online

pytest.importorskip("onnxruntime")
pytest.importorskip("silero_vad")


ROOT = Path(__file__).parents[3]
ROW = np.zeros(1, np.int64)
STREAMS = 6
RULES = Rule(silence=0.08, quiet=0.12), Rule(length=0.8)  # short, as is what no training made


@cache
def vad() -> Vad:
    return load_vad()


@cache
def speech(number: int, seconds: float = 3.0) -> Samples:
    """Somebody who speaks, with silence before and behind; noise where no recording is at hand."""
    files = sorted(needs.RECORDINGS.glob("audio/*/*.opus"))
    said = decode(files[number])[: round(16_000 * seconds)] if files else noise(number, seconds)
    hush = (1e-4 * np.random.default_rng(number).standard_normal(8_000)).astype(np.float32)
    return np.concatenate([hush, said, hush])


def steps(samples: Samples) -> Samples:
    whole = len(samples) // SAMPLES_PER_STEP
    return samples[: whole * SAMPLES_PER_STEP].reshape(whole, SAMPLES_PER_STEP)


@cache
def alone(number: int) -> NDArray[np.float32]:
    """What the detector makes of a speaker, heard by itself."""
    table = vad().stepper(1)
    return np.concatenate([table.step(step[None], ROW) for step in steps(speech(number))])


@pytest.mark.shared
@needs.recordings
def test_somebody_who_speaks_is_heard_and_silence_is_not() -> None:
    heard = alone(0) >= SPEECH
    assert heard[20:80].mean() > 0.7
    assert not heard[:10].any()
    assert not heard[-6:].any()


def test_probabilities_are_those_of_the_package() -> None:
    from silero_vad import load_silero_vad
    from torch import from_numpy

    theirs, samples = load_silero_vad(onnx=True), speech(1)
    windows = [
        float(theirs(from_numpy(samples[start : start + 512]), 16_000))
        for start in range(0, len(samples) - 511, 512)
    ]
    ends = (np.arange(len(windows)) + 1) * 512
    found = alone(1)
    for step in range(len(found)):
        inside = (ends > step * SAMPLES_PER_STEP) & (ends <= (step + 1) * SAMPLES_PER_STEP)
        expected = max(one for one, mine in zip(windows, inside, strict=True) if mine)
        assert found[step] == pytest.approx(expected, abs=1e-4)


turns = st.lists(
    st.lists(st.integers(0, STREAMS - 1), min_size=1, max_size=STREAMS, unique=True),
    min_size=1,
    max_size=25,
)


@given(turns=turns)
@settings(max_examples=25)
def test_a_stream_s_probabilities_are_the_same_bits_in_any_company(turns: list[list[int]]) -> None:
    """Streams come in any order, some more often than others, in batches below and above a tile."""
    assert STREAMS > TILE
    table, taken = vad().stepper(STREAMS), [0] * STREAMS
    audio = [steps(speech(number)) for number in range(STREAMS)]
    found: list[list[float]] = [[] for _ in range(STREAMS)]
    for rows in turns:
        samples = np.stack([audio[row][taken[row]] for row in rows])
        for row, one in zip(rows, table.step(samples, np.array(rows)), strict=True):
            found[row].append(float(one))
            taken[row] += 1
    for row, each in enumerate(found):
        assert each == alone(row)[: len(each)].tolist()


def test_the_states_are_the_same_bits_in_a_full_batch() -> None:
    rows = np.arange(STREAMS)
    many, one = vad().stepper(STREAMS), vad().stepper(1)
    audio = [steps(speech(number)) for number in range(STREAMS)]
    for step in range(60):
        many.step(np.stack([each[step] for each in audio]), rows)
        one.step(audio[3][step][None], ROW)
    assert many.snapshot(3) == one.snapshot(0)


@pytest.mark.parametrize("place", range(5))
def test_a_row_that_is_resumed_goes_on_to_the_same_bits(place: int) -> None:
    audio, first, second = steps(speech(2)), vad().stepper(1), vad().stepper(3)
    for step in audio[: 30 + place]:
        first.step(step[None], ROW)
    second.restore(2, first.snapshot(0))
    for step in audio[30 + place : 60]:
        assert first.step(step[None], ROW) == second.step(step[None], ROW + 2)
    assert first.snapshot(0) == second.snapshot(2)


def test_a_state_has_one_small_size() -> None:
    table = vad().stepper(5)
    fresh = table.snapshot(0)
    for step in steps(speech(0)):
        table.step(step[None], ROW)
    assert len(table.snapshot(0)) == len(fresh) < 3_000
    table.reset(ROW)
    assert table.snapshot(0) == fresh


@cache
def whole(number: int) -> list[Update]:
    stream = LiveStream(online(), RULES, vad())
    return [*stream.push(speech(number)), *stream.end()]


def characters(heard: list[Update]) -> list[Character]:
    return [one for each in heard for one in each.characters]


@pytest.mark.shared
@needs.recordings
def test_the_detector_has_a_say_in_where_utterances_end() -> None:
    without = LiveStream(online(), (Rule(silence=0.08), RULES[1]))
    found = [one.endpoint is not None for one in [*without.push(speech(0)), *without.end()]]
    ends = [one.endpoint is not None for one in whole(0)]
    assert sum(ends) > 1
    assert ends != found


def test_characters_and_ends_do_not_depend_on_who_else_is_heard() -> None:
    recordings = [speech(number) for number in range(STREAMS)]
    many = dict(transcribe_many(online(), recordings, 5, RULES, vad()))
    for number in range(STREAMS):
        alone, end = characters(whole(number)), len(speech(number)) / SAMPLE_RATE
        assert [one.text for one in many[number]] == [one.text for one in alone]
        assert [min(one.time, end) for one in many[number]] == [one.time for one in alone]


@given(cuts=st.lists(st.integers(0, len(speech(0))), max_size=4))
@settings(max_examples=8)
def test_a_stream_may_be_suspended_after_any_sample(cuts: list[int]) -> None:
    stream, heard = LiveStream(online(), RULES, vad()), list[Update]()
    for piece in np.split(speech(0), sorted(cuts)):
        heard += stream.push(piece)
        data = stream.suspend()
        assert Snapshot.from_bytes(data).detector == vad().digest.hex()
        stream = LiveStream.resume(online(), data, vad())
    assert heard + list(stream.end()) == whole(0)


def test_a_stream_that_began_with_the_detector_is_refused_where_there_is_none() -> None:
    data = LiveStream(online(), vad=vad()).suspend()
    assert Snapshot.from_bytes(data).rules == QUIET_RULES
    with pytest.raises(SnapshotError, match="expected a stream that began without"):
        LiveStream.resume(online(), data)
    with pytest.raises(SnapshotError, match="expected a stream of this voice activity detector"):
        LiveStream.resume(online(), data, Vad(vad().session, bytes(16)))


def test_streams_with_and_without_the_detector_share_a_pool() -> None:
    """A row that goes on without the detector, or is not parted, between rows that it hears."""
    first, rest = np.split(speech(1), [20_000])
    plain = LiveStream(online())
    [*plain.push(first)]
    pool = Pool(online(), 3, vad=vad())
    snapshot = Snapshot.from_bytes(plain.suspend())
    rows = [pool.open(snapshot=snapshot), pool.open(), pool.open(StreamOptions(endpoints=False))]
    assert [pool.snapshot(row).detector != "" for row in rows] == [False, True, False]
    assert not pool.snapshot(rows[0]).heard
    expected, found = [*plain.push(rest), *plain.end()], []
    for row in rows:
        pool.push(row, rest)
        pool.end(row)
    while len(pool.ready()):
        found += [update.within_input() for row, update in pool.advance() if row == rows[0]]
    assert found == expected


LEAN = """
import sys
import cortado.clients.cli
import cortado.server.service
from cortado.model.streaming.vad import load_vad
before = {"onnxruntime", "silero_vad", "torch"} & set(sys.modules)
load_vad()
print(sorted(before), sorted({"onnxruntime", "silero_vad", "torch"} & set(sys.modules)))
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_is_imported_where_it_is_asked_for_and_brings_neither_torch_nor_the_package() -> None:
    done = run(LEAN)
    assert done.stdout.strip() == "[] ['onnxruntime']", done.stderr


MISSING = """
import sys
sys.modules[sys.argv[1]] = None
from cortado.clients.cli import main
sys.exit([main(line.split()) for line in sys.argv[2:]] != [2, 2])
"""


@pytest.mark.parametrize("missing", ["onnxruntime", "silero_vad"])
def test_a_missing_extra_is_one_clear_line(missing: str) -> None:
    done = run(MISSING, missing, "serve --vad --port 0", "transcribe --vad a.wav")
    assert done.returncode == 0
    one, other = done.stderr.splitlines()
    assert one == other
    assert one.startswith("cortado: expected onnxruntime and silero-vad for the voice")
    assert one.endswith("of the extra cortado-asr[vad]; in a clone: make install EXTRAS=vad")
