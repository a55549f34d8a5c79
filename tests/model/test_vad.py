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

from cortado.model.audio.decode import decode
from cortado.model.backends.reference import Character, OnlineRecognizer
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.streaming.endpoint import QUIET_RULES, Rule
from cortado.model.streaming.listener import Listener
from cortado.model.streaming.live import Heard, LiveStream
from cortado.model.streaming.recordings import transcribe_many
from cortado.model.streaming.snapshot import VAD_VERSION, VERSION, Snapshot
from cortado.model.streaming.suspension import SnapshotError
from cortado.model.streaming.vad import SPEECH, TILE, Vad, VadTable, load_vad
from cortado.tests.model.test_live import TINY
from cortado.tests.model.untrained import noise, untrained

pytest.importorskip("onnxruntime")
pytest.importorskip("silero_vad")

Samples = NDArray[np.float32]

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT.parent / "shared/data/librispeech-mini"
ROW = np.zeros(1, np.int64)
STREAMS = 6
RULES = Rule(silence=0.08, quiet=0.12), Rule(length=0.8)  # short, as is what no training made


@cache
def vad() -> Vad:
    return load_vad()


@cache
def online() -> OnlineRecognizer:
    return untrained(TINY, 10)


@cache
def speech(number: int, seconds: float = 3.0) -> Samples:
    """Somebody who speaks, with silence before and behind; noise where no recording is at hand."""
    files = sorted(RECORDINGS.glob("audio/*/*.opus"))
    said = decode(files[number])[: round(16_000 * seconds)] if files else noise(number, seconds)
    hush = (1e-4 * np.random.default_rng(number).standard_normal(8_000)).astype(np.float32)
    return np.concatenate([hush, said, hush])


def steps(samples: Samples) -> Samples:
    whole = len(samples) // SAMPLES_PER_STEP
    return samples[: whole * SAMPLES_PER_STEP].reshape(whole, SAMPLES_PER_STEP)


def alone(samples: Samples) -> NDArray[np.float32]:
    table = vad().table(1)
    return np.concatenate([table.step(step[None], ROW) for step in steps(samples)])


@pytest.mark.shared
@pytest.mark.skipif(not RECORDINGS.exists(), reason="no recordings")
def test_somebody_who_speaks_is_heard_and_silence_is_not() -> None:
    heard = alone(speech(0)) >= SPEECH
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
    found = alone(samples)
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
@settings(deadline=None, max_examples=25)
def test_a_stream_s_probabilities_are_the_same_bits_in_any_company(turns: list[list[int]]) -> None:
    """Streams come in any order, some more often than others, in batches below and above a tile."""
    assert STREAMS > TILE
    table, taken = vad().table(STREAMS), [0] * STREAMS
    audio = [steps(speech(number)) for number in range(STREAMS)]
    found: list[list[float]] = [[] for _ in range(STREAMS)]
    for rows in turns:
        samples = np.stack([audio[row][taken[row]] for row in rows])
        for row, one in zip(rows, table.step(samples, np.array(rows)), strict=True):
            found[row].append(float(one))
            taken[row] += 1
    for row, each in enumerate(found):
        assert each == alone(speech(row))[: len(each)].tolist()


def test_the_states_are_the_same_bits_in_a_full_batch() -> None:
    rows = np.arange(STREAMS)
    many, one = vad().table(STREAMS), vad().table(1)
    audio = [steps(speech(number)) for number in range(STREAMS)]
    for step in range(60):
        many.step(np.stack([each[step] for each in audio]), rows)
        one.step(audio[3][step][None], ROW)
    assert many.suspend(3) == one.suspend(0)


@pytest.mark.parametrize("place", range(5))
def test_a_row_that_is_resumed_goes_on_to_the_same_bits(place: int) -> None:
    audio, first, second = steps(speech(2)), vad().table(1), vad().table(3)
    for step in audio[: 30 + place]:
        first.step(step[None], ROW)
    second.resume(2, first.suspend(0))
    for step in audio[30 + place : 60]:
        assert first.step(step[None], ROW) == second.step(step[None], ROW + 2)
    assert first.suspend(0) == second.suspend(2)


def test_a_state_has_one_small_size() -> None:
    table = vad().table(5)
    fresh = table.suspend(0)
    for step in steps(speech(0)):
        table.step(step[None], ROW)
    assert len(table.suspend(0)) == len(fresh)
    assert table.bytes_per_stream == vad().table(1).bytes_per_stream == 2_824
    table.reset(ROW)
    assert table.suspend(0) == fresh


@pytest.mark.parametrize("place", [0, 9, 20, 100, -1])
def test_a_damaged_or_foreign_state_is_refused(place: int) -> None:
    table = vad().table(1)
    data = bytearray(table.suspend(0))
    data[place] ^= 1
    with pytest.raises(SnapshotError, match=r"^expected "):
        table.resume(0, bytes(data))
    with pytest.raises(SnapshotError, match="another model"):
        VadTable(Vad(vad().session, bytes(16)), 1).resume(0, table.suspend(0))


@cache
def whole(number: int) -> list[Heard]:
    stream = LiveStream(online(), RULES, vad())
    return [*stream.push(speech(number)), *stream.end()]


def characters(heard: list[Heard]) -> list[Character]:
    return [one for each in heard for one in each.characters]


@pytest.mark.shared
@pytest.mark.skipif(not RECORDINGS.exists(), reason="no recordings")
def test_the_detector_has_a_say_in_where_utterances_end() -> None:
    without = LiveStream(online(), (Rule(silence=0.08), RULES[1]))
    found = [one.endpoint is not None for one in [*without.push(speech(0)), *without.end()]]
    ends = [one.endpoint is not None for one in whole(0)]
    assert sum(ends) > 1
    assert ends != found


def test_characters_and_ends_do_not_depend_on_who_else_is_heard() -> None:
    recordings = [speech(number) for number in range(STREAMS)]
    many = dict(transcribe_many(online(), recordings, 5, RULES, vad()))
    assert [many[each] for each in range(STREAMS)] == [characters(whole(n)) for n in range(STREAMS)]
    listener, rows = Listener(online(), STREAMS, None, RULES, vad()), np.arange(STREAMS)
    audio = [steps(each) for each in recordings]
    for step in range(min(map(len, audio))):
        _, ended = listener.step(np.stack([each[step] for each in audio]), rows)
        assert ended.tolist() == [whole(n)[step].endpoint is not None for n in range(STREAMS)]


@given(cuts=st.lists(st.integers(0, len(speech(0))), max_size=4))
@settings(deadline=None, max_examples=8)
def test_a_stream_may_be_suspended_after_any_sample(cuts: list[int]) -> None:
    stream, heard = LiveStream(online(), RULES, vad()), list[Heard]()
    for piece in np.split(speech(0), sorted(cuts)):
        heard += stream.push(piece)
        data = stream.suspend()
        assert data[16] == VAD_VERSION
        stream = LiveStream.resume(online(), data, vad())
    assert heard + list(stream.end()) == whole(0)


def test_a_stream_that_began_with_the_detector_is_refused_where_there_is_none() -> None:
    data = LiveStream(online(), vad=vad()).suspend()
    assert Snapshot.from_bytes(data).listener.rules == QUIET_RULES
    with pytest.raises(SnapshotError, match="expected a stream that began without"):
        LiveStream.resume(online(), data)
    with pytest.raises(SnapshotError, match="expected a stream that began without"):
        Listener(online(), 1).resume(0, Snapshot.from_bytes(data).listener)


def test_a_stream_that_began_without_the_detector_goes_on_without() -> None:
    rules = Rule(silence=0.12), Rule(length=0.4)
    plain = LiveStream(online(), rules)
    [*plain.push(speech(0)[:20_000])]
    data = plain.suspend()
    assert data[16] == VERSION
    resumed = LiveStream.resume(online(), data, vad())
    expected = [*plain.push(speech(0)[20_000:]), *plain.end()]
    assert [*resumed.push(speech(0)[20_000:]), *resumed.end()] == expected
    assert any(one.endpoint for one in expected)


def test_both_kinds_of_streams_share_a_listener() -> None:
    """A row that goes on without the detector, between rows that it hears, by the usual rules."""
    audio, rows = [steps(speech(number)) for number in range(3)], np.arange(3)
    plain, shared = Listener(online(), 1), Listener(online(), 3, vad=vad())
    for step in audio[1][:20]:
        plain.step(step[None], ROW)
    shared.resume(1, plain.suspend(0))
    for step in range(20, 80):
        expected = plain.step(audio[1][step][None], ROW)
        found = shared.step(np.stack([each[step] for each in audio]), rows)
        assert np.array_equal(found[0][1], expected[0][0])
        assert found[1][1] == expected[1][0]
    assert shared.suspend(1) == plain.suspend(0)
    shared.reset(np.array([1]))
    assert shared.suspend(1).vad


def test_a_stream_that_is_not_parted_is_not_heard_by_the_detector() -> None:
    listener = Listener(online(), 1, vad=vad())
    listener.reset(ROW, endpoints=False)
    state = listener.suspend(0)
    assert not state.vad
    Listener(online(), 1).resume(0, state)


def test_what_is_suspended_without_the_detector_says_nothing_of_it() -> None:
    data = LiveStream(online()).suspend()
    kept = Snapshot.from_bytes(data)
    assert (data[16], kept.listener.vad, len(kept.listener.endpoint)) == (VERSION, b"", 5)
    assert b"vad" not in data
    assert b'"rules": [[0.8, 0.6, 0.0], [2.0, 0.0, 0.0], ' in data


def test_rules_with_quiet_need_the_detector() -> None:
    with pytest.raises(ValueError, match="expected a voice activity detector"):
        LiveStream(online(), RULES)


LEAN = """
import sys
from cortado.model.streaming.vad import load_vad
before = {"onnxruntime", "silero_vad", "torch"} & set(sys.modules)
load_vad()
print(sorted(before), sorted({"onnxruntime", "silero_vad", "torch"} & set(sys.modules)))
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_brings_neither_torch_nor_the_package_itself() -> None:
    done = run(LEAN)
    assert done.stdout.strip() == "[] ['onnxruntime']", done.stderr


SERVE = """
import sys
from cortado.model.streaming.live import LiveStream
from cortado.server.service import Service
import cortado.clients.cli
print("onnxruntime" in sys.modules, "silero_vad" in sys.modules)
"""


def test_without_it_nothing_of_it_is_imported() -> None:
    assert run(SERVE).stdout.split() == ["False", "False"]


MISSING = """
import sys
sys.modules[sys.argv.pop(1)] = None
from cortado.clients.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("missing", ["onnxruntime", "silero_vad"])
@pytest.mark.parametrize("command", ["serve --vad --port 0", "transcribe --vad a.wav"])
def test_a_missing_extra_is_one_clear_line(missing: str, command: str) -> None:
    done = run(MISSING, missing, *command.split())
    assert done.returncode == 2
    assert done.stderr.startswith("cortado: expected onnxruntime and silero-vad for the voice")
    assert done.stderr.endswith(
        "of the extra cortado-asr[vad]; in a clone: make install EXTRAS=vad\n"
    )
    assert done.stderr.count("\n") == 1
