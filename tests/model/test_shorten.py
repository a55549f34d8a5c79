"""The shorten decoder against the samples that were encoded, and against FFmpeg's."""

import io
import time
import tracemalloc

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.audio.shorten import Shorten
from cortado.tests.model.sphere_files import (
    BLOCKSIZE,
    DIFF0,
    DIFF1,
    DIFF2,
    DIFF3,
    MULAW,
    QLPC,
    SIGNED_HIGH_LOW,
    SIGNED_LOW_HIGH,
    ZERO,
    Bits,
    Plan,
    encode,
    header,
)

Samples = NDArray[np.int64]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compile the decoder before anything is timed."""
    decode(encode(speech(300), [Plan()]))


def decode(data: bytes) -> Samples:
    return np.concatenate(list(Shorten(np.frombuffer(data, np.uint8)).blocks())).astype(np.int64)


def ffmpeg(data: bytes, channels: int) -> Samples:
    """What FFmpeg makes of a stream, in a SPHERE file as it lies on the discs."""
    head = header(
        channel_count=channels,
        sample_rate=16000,
        sample_n_bytes=2,
        sample_byte_format="01",
        sample_coding="pcm,embedded-shorten-v2.00",
    )
    pieces = []
    with av.open(io.BytesIO(head + data), "r", format="nistsphere") as container:
        for frame in container.decode(audio=0):
            pieces.append(frame.to_ndarray().reshape(-1, frame.samples))
    return np.concatenate(pieces, axis=1).T.astype(np.int64)


def speech(n: int, channels: int = 1, seed: int = 0) -> Samples:
    """16-bit samples that swell and fade, with an offset."""
    rng = np.random.default_rng(seed)
    time = np.arange(n)[:, None] / 16000
    tone = np.sin(2 * np.pi * np.array([210.0, 470.0, 930.0]) * time).sum(1, keepdims=True)
    swell = np.sin(np.pi * time * 3) ** 2 * 4000
    return np.round(37 + swell * tone + rng.normal(0, 30, (n, channels))).astype(np.int64)


def test_every_function_gives_back_the_samples_and_what_ffmpeg_gives() -> None:
    plans = [
        Plan(DIFF0),
        Plan(DIFF1),
        Plan(DIFF2),
        Plan(DIFF3),
        Plan(QLPC, 0, (40,)),
        Plan(QLPC, 0, (58, -29, 1, -3, 2)),
    ]
    samples = speech(3000)
    for version in (1, 2, 3):
        data = encode(samples, plans, version, order=5)
        assert (decode(data) == samples).all()
        assert (ffmpeg(data, 1) == samples).all()


@pytest.mark.parametrize("kind", [SIGNED_HIGH_LOW, SIGNED_LOW_HIGH])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_channels_are_told_apart_in_either_byte_order(kind: int, channels: int) -> None:
    samples = speech(1000, channels) * np.arange(1, channels + 1)
    data = encode(samples, [Plan(DIFF1), Plan(DIFF2), Plan(QLPC, 0, (30,))], kind=kind, order=1)
    assert (decode(data) == samples).all()
    assert (ffmpeg(data, channels) == samples).all()


@pytest.mark.parametrize("version", [1, 2])
def test_shifts_silence_and_a_short_last_block(version: int) -> None:
    samples = speech(256 * 6 + 77)
    samples[256:512] = samples[256:512] >> 3 << 3
    samples[512:1024] = 0
    plans = [Plan(DIFF1), Plan(DIFF0, 3), Plan(ZERO, 3), Plan(ZERO), Plan(DIFF2), Plan(DIFF3)]
    data = encode(samples, plans, version)
    assert (decode(data) == samples).all()
    assert (ffmpeg(data, 1) == samples).all()


def test_old_encoders_shift_silence_by_32_bits() -> None:
    samples = speech(768)
    samples[256:512] = 0
    data = encode(samples, [Plan(DIFF1), Plan(DIFF1, 32), Plan(DIFF1)], version=1, means=0)
    assert (decode(data) == samples).all()


def test_a_filter_of_order_0_predicts_its_rounding() -> None:
    samples = speech(512)
    data = encode(samples, [Plan(QLPC, 0, ())], version=2, order=3)
    assert (decode(data) == samples).all()


def test_loudest_samples_survive() -> None:
    samples = np.where(np.arange(600) % 2, 32767, -32768)[:, None].astype(np.int64)
    data = encode(samples, [Plan(DIFF3), Plan(DIFF2), Plan(DIFF0)])
    assert (decode(data) == samples).all()


@pytest.mark.parametrize(("kind", "low", "high"), [(1, -128, 127), (2, 0, 255), (6, 0, 65535)])
def test_other_widths_and_signs(kind: int, low: int, high: int) -> None:
    samples = np.random.default_rng(0).integers(low, high + 1, (1000, 1))
    data = encode(samples, [Plan(DIFF0), Plan(DIFF1), Plan(DIFF2)], kind=kind)
    assert (decode(data) == samples).all()


def test_verbatim_bytes_are_passed_over() -> None:
    samples = speech(500)
    assert (decode(encode(samples, [Plan()], verbatim=b"RIFF" * 11)) == samples).all()


def test_a_long_stream_comes_in_pieces_of_bounded_size() -> None:
    samples = speech(200_000)
    data = np.frombuffer(encode(samples, [Plan(DIFF2)]), np.uint8)
    pieces = list(Shorten(data).blocks())
    assert len(pieces) > 2
    assert max(map(len, pieces)) < 70_000
    assert (np.concatenate(pieces) == samples).all()


@st.composite
def streams(draw: st.DrawFn) -> tuple[Samples, bytes]:
    """Draw samples of every temper, and a stream of them by any functions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    channels, n = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.integers(1, 900))
    loudness = draw(st.sampled_from([0.0, 1.0, 40.0, 3000.0, 30000.0]))
    noise = rng.normal(0, 1, (n, channels))
    shapes = {"noise": noise, "walk": np.cumsum(noise, 0) / 10, "clicks": np.sign(noise)}
    shape = shapes[draw(st.sampled_from(sorted(shapes)))]
    shift = draw(st.sampled_from([0, 0, 0, 1, 2, 7]))
    offset = draw(st.sampled_from([0, 0, 5, -900]))
    samples = np.clip(np.round(shape * loudness) + offset, -32768, 32767).astype(np.int64)
    samples = samples >> shift << shift
    order = draw(st.integers(0, 6))
    plan = st.builds(Plan, st.sampled_from([DIFF0, DIFF1, DIFF2, DIFF3]), st.integers(0, shift))
    if order:
        weights = st.lists(st.integers(-60, 60), min_size=1, max_size=order).map(tuple)
        plan |= st.builds(Plan, st.just(QLPC), st.integers(0, shift), weights)
    if not samples.any():
        plan |= st.just(Plan(ZERO))
    data = encode(
        samples,
        draw(st.lists(plan, min_size=1, max_size=5)),
        version=draw(st.sampled_from([1, 2, 3])),
        block=draw(st.sampled_from([16, 100, 256, 1000])),
        order=order,
        means=draw(st.sampled_from([0, 1, 4])),
    )
    return samples, data


@settings(max_examples=300, deadline=None)
@given(streams())
def test_any_stream_is_decoded_bit_by_bit_as_by_ffmpeg(drawn: tuple[Samples, bytes]) -> None:
    samples, data = drawn
    assert (decode(data) == samples).all()
    assert (ffmpeg(data, samples.shape[1]) == samples).all()


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut or lengthen a stream behind its magic number."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        changed[int(rng.integers(4, len(changed)))] ^= 1 << int(rng.integers(8))
    if rng.random() < 0.3:
        del changed[int(rng.integers(5, len(changed))) :]
    return bytes(changed) + rng.bytes(int(rng.integers(0, 40)) if rng.random() < 0.2 else 0)


BASES = [
    encode(speech(700), [Plan(DIFF1), Plan(QLPC, 0, (50, -20)), Plan(DIFF0)], 2, order=2),
    encode(speech(300, 2), [Plan(DIFF2), Plan(DIFF3)], 1, block=64),
    encode(np.zeros((600, 1), np.int64), [Plan(ZERO), Plan(DIFF1, 2)], 3),
]


def fuzz(seed: int) -> bool:
    """Decode a hostile stream; return whether it passed for a good one."""
    rng = np.random.default_rng(seed)
    data = mutated(BASES[seed % len(BASES)], rng)
    began = time.process_time()
    try:
        found = decode(data)
        complaint = "expected "
    except ValueError as error:
        found, complaint = np.zeros(0, np.int64), str(error)
    assert time.process_time() - began < 1
    assert complaint.startswith("expected ")
    assert found.min(initial=0) >= -65536
    assert found.max(initial=0) <= 65536
    return len(found) > 0


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**40))
def test_a_hostile_stream_is_decoded_or_refused_within_a_second(seed: int) -> None:
    fuzz(seed)


def test_what_passes_of_hostile_streams_is_what_ffmpeg_gives() -> None:
    compared = 0
    for seed in range(600):
        rng = np.random.default_rng(seed)
        data = bytearray(BASES[0])
        data[int(rng.integers(12, len(data)))] ^= 1 << int(rng.integers(8))
        try:
            found = decode(bytes(data))
        except ValueError:
            continue
        compared += 1
        assert (ffmpeg(bytes(data), 1) == found).all()
    assert compared > 20


def test_a_bomb_of_silence_is_refused_in_bounded_memory() -> None:
    bits = Bits()
    for value in (SIGNED_LOW_HIGH, 8, 65535, 0, 0, 0):
        bits.number(value)
    for _ in range(20_000):
        bits.unsigned(ZERO, 2)
    tracemalloc.start()
    with pytest.raises(ValueError, match="expected at most 512 samples a byte, got more"):
        for _ in Shorten(np.frombuffer(b"ajkg\2" + bits.whole_words(), np.uint8)).blocks():
            pass
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_what_is_wrong_is_said() -> None:
    good = encode(speech(400), [Plan()])

    def error(data: bytes) -> str:
        with pytest.raises(ValueError, match="expected") as caught:
            decode(data)
        return str(caught.value)

    assert "shorten of version 1 to 3, got another stream" in error(b"fLaC" + good[4:])
    assert "shorten of version 1 to 3, got another stream" in error(b"ajkg\x07" + good[5:])
    assert "a whole stream, got one that is cut" in error(good[:-60])
    assert "a whole stream, got one that is cut" in error(good[:7])
    assert "codes below 2^24, got a larger one" in error(good[:20] + bytes(3_000_000))
    bits = Bits()
    for value in (SIGNED_LOW_HIGH, 1, 256, 0, 0, 0):
        bits.number(value)
    bits.unsigned(BLOCKSIZE, 2)
    bits.number(257)
    assert "a block no larger than the first" in error(b"ajkg\2" + bits.whole_words())
    louder = encode(np.full((400, 1), 32768, np.int64), [Plan()])
    assert "samples within their width" in error(louder)
    shifted = encode(np.zeros((300, 1), np.int64), [Plan(DIFF1, 2)], kind=MULAW)
    assert "none in mu-law" in error(shifted)
