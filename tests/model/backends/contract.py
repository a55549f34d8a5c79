"""The one contract of a whole recogniser in a backend: what its streams may count on.

It is that of a layer (tests/model/contract.py) between samples and characters: any chunking is the
whole, a batch is each stream alone, a fresh state is a reset, states are values of their streams.
"""

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model.arrays import Rows, Samples
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.features.framing import SAMPLES_PER_STEP as STEP
from cortado.model.search.phrases import PhrasesError, expecting
from cortado.model.streaming.endpoint import Rule
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.live import LiveStream, listen
from cortado.model.streaming.options import StreamOptions
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.recordings import transcribe, transcribe_many
from cortado.model.streaming.update import Update

RULES = (Rule(silence=0.12), Rule(length=0.4))  # short, as is what an untrained model hears
EACH = (1, 639, 641, 320, 48_000, 64, 5_000)  # samples: every order of magnitude


def verify(recognizer: StreamingRecognizer, speech: Sequence[Samples]) -> None:
    """Check every clause of the contract on a few recordings of different lengths."""
    alone = [transcribe(recognizer, samples) for samples in speech]
    assert len({"".join(one.text for one in each) for each in alone}) > 2
    assert min(map(len, alone)) > 2
    rest = recognizer.flush_steps * STEP / SAMPLE_RATE
    times_rise_and_lie_on_steps_within_the_audio(alone, speech, rest)
    any_chunking_is_the_whole(recognizer, speech[0], alone[0])
    a_batch_is_each_stream_alone(recognizer, speech, alone)
    streams_come_and_go(recognizer, speech, alone)
    a_snapshot_goes_on(recognizer, speech[1])
    phrases_are_their_streams_own(recognizer, speech, alone)
    a_row_has_the_same_bits_in_a_batch_of_any_size(recognizer, speech[-1])
    masked_rows_keep_their_state(recognizer, speech[-1])
    a_row_that_is_reset_has_heard_nothing(recognizer, speech[-1])
    a_decoder_that_is_renewed_has_nothing_left_to_commit(recognizer, speech[-1])
    what_awaits_its_commit_is_known(recognizer, speech[-1])
    what_is_no_sound_is_not_felt_by_others(recognizer, speech[-1])
    samples_of_another_shape_are_refused(recognizer)


def times_rise_and_lie_on_steps_within_the_audio(
    alone: Sequence[Sequence[Character]], speech: Sequence[Samples], rest: float
) -> None:
    for characters, samples in zip(alone, speech, strict=True):
        times = [one.time for one in characters]
        assert times == sorted(times)
        assert all(time == round(round(time / 0.04) * 0.04, 3) for time in times)
        assert all(0 <= time <= len(samples) / SAMPLE_RATE + rest for time in times)


def pieces(samples: Samples, sizes: Sequence[int]) -> list[Samples]:
    """Return the samples in pieces of `sizes`, again and again."""
    parts, start = [], 0
    for size in cycle(sizes):
        parts.append(samples[start : start + size])
        start += size
        if start >= len(samples):
            return parts
    raise AssertionError("sizes are positive")


def any_chunking_is_the_whole(
    recognizer: StreamingRecognizer, samples: Samples, whole: Sequence[Character]
) -> None:
    told = as_told(whole, samples)
    for sizes in ((len(samples),), EACH, (STEP,), (317,)):
        updates = listen(recognizer, pieces(samples, sizes))
        assert [one for update in updates for one in update.characters] == told


def as_told(characters: Sequence[Character], samples: Samples) -> list[Character]:
    """Return the characters of whole samples as a stream tells them: none behind the samples."""
    return [*Update(characters, len(samples) / SAMPLE_RATE, True).within_input().characters]


def a_batch_is_each_stream_alone(
    recognizer: StreamingRecognizer,
    speech: Sequence[Samples],
    alone: Sequence[Sequence[Character]],
) -> None:
    for streams in (2, 3, 64):
        order = np.random.default_rng(streams).permutation(len(speech) + 2) % len(speech)
        found = dict(transcribe_many(recognizer, (speech[k] for k in order), streams))
        assert found == {index: alone[int(k)] for index, k in enumerate(order)}


def streams_come_and_go(
    recognizer: StreamingRecognizer,
    speech: Sequence[Samples],
    alone: Sequence[Sequence[Character]],
) -> None:
    """Each begins in its own time and row, and its pieces come as they like."""
    random, pool = np.random.default_rng(1), Pool(recognizer, len(speech) + 3)
    waiting = {pool.open(): pieces(samples, EACH[1:]) for samples in speech}
    rows = dict(zip(waiting, range(len(speech)), strict=True))
    heard: dict[int, list[Character]] = {row: [] for row in rows}
    while rows:
        for row in [row for row in rows if random.random() < 0.4]:
            if waiting[row]:
                pool.push(row, waiting[row].pop(0))
            else:
                pool.end(row)
        for row, update in pool.advance():
            heard[row].extend(update.characters)
            if update.finished:
                assert heard[row] == alone[rows.pop(row)]


def a_snapshot_goes_on(recognizer: StreamingRecognizer, samples: Samples) -> None:
    stream = LiveStream(recognizer, RULES)
    whole = [*stream.push(samples), *stream.end()]
    assert any(update.endpoint for update in whole)
    stream, heard = LiveStream(recognizer, RULES), list[Update]()
    for piece in np.split(samples, [317, 5_000, 9_999]):
        heard += stream.push(piece)
        data = stream.suspend()
        stream = LiveStream.resume(recognizer, data)
        assert stream.suspend() == data
    assert [*heard, *stream.end()] == whole


def phrases_are_their_streams_own(
    recognizer: StreamingRecognizer,
    speech: Sequence[Samples],
    alone: Sequence[Sequence[Character]],
) -> None:
    """They change their stream alone, and go with it where it is resumed."""
    begun = "".join(one.text for one in alone[0]).split()[0][:2]
    phrases = [begun + letter for letter in "etaoinshrdlu"]
    if recognizer.beam.width == 1:
        with pytest.raises(PhrasesError, match="a search for phrases, got the greedy"):
            LiveStream(recognizer, options=StreamOptions(phrases))
        return
    pool = Pool(recognizer, len(speech))
    rows = [pool.open(StreamOptions(() if k else phrases)) for k in range(len(speech))]
    for row, samples in zip(rows, speech, strict=True):
        pool.push(row, samples)
        pool.end(row)
    heard: list[list[Character]] = [[] for _ in rows]
    while len(pool.ready()):
        for row, update in pool.advance():
            heard[rows.index(row)].extend(update.characters)
    assert heard[1:] == list(alone[1:])
    assert heard[0] != alone[0]
    stream, moved = LiveStream(recognizer, options=StreamOptions(phrases)), list[Character]()
    for piece in np.split(speech[0], [317, 5_000]):
        moved += [one for update in stream.push(piece) for one in update.characters]
        stream = LiveStream.resume(recognizer, stream.suspend())
    moved += [one for update in stream.end() for one in update.characters]
    assert moved == as_told(heard[0], speech[0])
    stepper, few = recognizer.stepper(2), steps(speech[0])
    stepper.expect(0, expecting(phrases, recognizer.vocabulary))
    for row in range(2):  # one behind the other, in the same working memory
        for step in few[0]:
            stepper.step(step[None], np.array([row]))
    assert stepper.snapshot(1) == states(recognizer, few, np.array([0]), 1)[0]


def states(
    recognizer: StreamingRecognizer, samples: Samples, rows: Rows, streams: int
) -> list[bytes]:
    """Step some rows through (R, T, STEP) samples; return their states."""
    stepper = recognizer.stepper(streams, threads=2)
    for step in range(samples.shape[1]):
        stepper.step(np.ascontiguousarray(samples[:, step]), rows)
    return [stepper.snapshot(int(row)) for row in rows]


def steps(samples: Samples) -> NDArray[np.float32]:
    return samples[: 6 * STEP].reshape(1, 6, STEP)


def a_row_has_the_same_bits_in_a_batch_of_any_size(
    recognizer: StreamingRecognizer, samples: Samples
) -> None:
    [alone] = states(recognizer, steps(samples), np.array([0]), 1)
    for streams in (2, 7, 8, 9, 129):
        random = np.random.default_rng(streams)
        crowd = random.normal(0, 0.05, (streams, 6, STEP)).astype(np.float32)
        order = random.permutation(streams)
        crowd[streams // 2] = steps(samples)[0]
        assert states(recognizer, crowd, order, streams)[streams // 2] == alone


def masked_rows_keep_their_state(recognizer: StreamingRecognizer, samples: Samples) -> None:
    stepper, few = recognizer.stepper(5), np.array([4, 1])
    for step in steps(samples)[0, :3]:
        stepper.step(np.tile(step, (5, 1)), np.arange(5))
    before = [stepper.snapshot(row) for row in range(5)]
    assert all(map(stepper.fits, before))
    assert not any(stepper.fits(state[:-1]) for state in before)
    assert max(map(len, before)) <= stepper.bytes_per_stream
    stepper.step(np.tile(steps(samples)[0, 3], (2, 1)), few)
    after = [stepper.snapshot(row) for row in range(5)]
    assert [row for row in range(5) if before[row] != after[row]] == [1, 4]
    assert after[1] == after[4]


def a_row_that_is_reset_has_heard_nothing(
    recognizer: StreamingRecognizer, samples: Samples
) -> None:
    stepper = recognizer.stepper(2)
    stepper.step(np.tile(steps(samples)[0, 0], (2, 1)), np.arange(2))
    before = stepper.snapshot(0)
    stepper.reset(np.array([1]))
    step = steps(samples)[0, 1:2]
    stepper.step(step, np.array([1]))
    assert stepper.snapshot(1) == states(recognizer, step[None], np.array([0]), 1)[0]
    assert stepper.snapshot(0) == before


def a_decoder_that_is_renewed_has_nothing_left_to_commit(
    recognizer: StreamingRecognizer, samples: Samples
) -> None:
    stepper, row = recognizer.stepper(1), np.array([0])
    for step in samples[: len(samples) // STEP * STEP].reshape(-1, 1, STEP):
        stepper.step(step, row)
    blank = stepper.blanks(row)
    stepper.restart(row)
    assert not stepper.restart(row).emitted.any()
    assert stepper.blanks(row) == blank  # what was heard stays


def what_awaits_its_commit_is_known(recognizer: StreamingRecognizer, samples: Samples) -> None:
    stepper, other, row = recognizer.stepper(1), recognizer.stepper(1), np.array([0])
    for step in samples[: len(samples) // STEP * STEP].reshape(-1, 1, STEP):
        stepper.step(step, row)
        other.restore(0, stepper.snapshot(0))
        [rest] = other.restart(row).lists()
        [waits] = stepper.pending(row)
        assert (waits >= rest[-1].late) if rest else (waits == -1)
        assert other.pending(row) == -1


def what_is_no_sound_is_not_felt_by_others(
    recognizer: StreamingRecognizer, samples: Samples
) -> None:
    [alone] = states(recognizer, steps(samples), np.array([0]), 1)
    for no_sound in (np.nan, np.inf, 1e30):
        crowd = np.full((9, 6, STEP), no_sound, np.float32)
        crowd[5] = steps(samples)[0]
        assert states(recognizer, crowd, np.arange(9), 9)[5] == alone


def samples_of_another_shape_are_refused(recognizer: StreamingRecognizer) -> None:
    stepper = recognizer.stepper(2)
    for shape in ((2, STEP - 1), (1, STEP)):
        with pytest.raises(ValueError, match="samples"):
            stepper.step(np.zeros(shape, np.float32), np.arange(2))
    assert len(stepper.step(np.zeros((0, STEP), np.float32), np.zeros(0, np.int64)).symbols) == 0
