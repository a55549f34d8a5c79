"""SPHERE files through the one way in, `decode`: every coding, and headers that lie."""

import io
import math
import os
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.audio.decode import decode
from cortado.model.audio.error import AudioError
from cortado.tests.model.audio.sphere_files import (
    MULAW,
    MULAW_TWO_ZEROS,
    SIGNED_LOW_HIGH,
    ZEROS,
    Bits,
    encode,
    header,
    write_sphere,
)
from cortado.tests.model.audio.test_decode import error_of


def tone(n: int = 4000, channels: int = 1) -> NDArray[np.int64]:
    time = np.arange(n)[:, None] * np.arange(1, channels + 1)
    return np.round(9000 * np.sin(time / 20)).astype(np.int64)


@pytest.mark.parametrize("order", ["01", "10"])
@pytest.mark.parametrize("shorten", [False, True])
@pytest.mark.parametrize("name", ["SA1.WAV", "01ic0201.wv1", "x.sph"])
def test_samples_come_out_exactly_whatever_the_name(
    tmp_path: Path, order: str, shorten: bool, name: str
) -> None:
    path = write_sphere(tmp_path / name, tone(), order=order, shorten=shorten)
    assert (decode(path) == tone()[:, 0] / 32768).all()


@pytest.mark.parametrize("shorten", [False, True])
def test_channels_are_averaged(tmp_path: Path, shorten: bool) -> None:
    path = write_sphere(tmp_path / "a.sph", tone(3000, 2), shorten=shorten)
    assert np.allclose(decode(path), tone(3000, 2).mean(1) / 32768, atol=1e-7)


@pytest.mark.parametrize(("width", "order"), [(1, "1"), (3, "01"), (3, "10"), (4, "01"), (4, "10")])
def test_samples_of_any_width(tmp_path: Path, width: int, order: str) -> None:
    values = np.random.default_rng(0).integers(-(2 ** (8 * width - 1)), 2 ** (8 * width - 1), 2000)
    data = b"".join(
        int(v).to_bytes(width, "big" if order == "10" else "little", signed=True) for v in values
    )
    path = tmp_path / "a.sph"
    path.write_bytes(
        header(
            sample_rate=16000, channel_count=1, sample_n_bytes=width, sample_byte_format=order,
            sample_coding="pcm", sample_count=2000,
        )
        + data
    )  # fmt: skip
    expected = (values / 2.0 ** (8 * width - 1)).astype(np.float32)
    assert (decode(path) == expected).all()


@pytest.mark.parametrize(
    ("coding", "subtype"), [("ulaw", "ULAW"), ("mu-law", "ULAW"), ("alaw", "ALAW")]
)
def test_telephone_codes_mean_what_libsndfile_reads(
    tmp_path: Path, coding: str, subtype: str
) -> None:
    codes = bytes(range(256)) * 20
    path = tmp_path / "a.sph"
    path.write_bytes(
        header(sample_rate=16000, channel_count=1, sample_n_bytes=1, sample_coding=coding) + codes
    )
    expected, _ = soundfile.read(
        io.BytesIO(codes),
        dtype="float32",
        samplerate=16000,
        channels=1,
        format="RAW",
        subtype=subtype,
    )
    assert (decode(path) == expected).all()


@pytest.mark.parametrize("kind", [MULAW, MULAW_TWO_ZEROS])
@pytest.mark.parametrize("channels", [1, 2])
def test_shortened_mulaw_is_numbered_by_loudness(tmp_path: Path, kind: int, channels: int) -> None:
    codes = np.random.default_rng(0).integers(0, 256, (1000, channels))
    numbers = np.where(codes < 128, codes - 127, 255 - codes)  # 0 is the positive zero
    if kind == MULAW:
        numbers[codes == 127] = -128  # the negative zero
    else:
        numbers[codes < 128] -= 1
    fields = {"sample_rate": 16000, "channel_count": channels, "sample_n_bytes": 1}
    fields["sample_count"] = len(codes)
    short, plain = tmp_path / "short.sph", tmp_path / "plain.sph"
    coding = "ulaw,embedded-shorten-v2.00"
    short.write_bytes(header(**fields, sample_coding=coding) + encode(numbers, kind))
    plain.write_bytes(header(**fields, sample_coding="ulaw") + codes.astype(np.uint8).tobytes())
    assert (decode(short) == decode(plain)).all()


def test_a_rate_of_the_telephone_is_resampled(tmp_path: Path) -> None:
    path = write_sphere(tmp_path / "a.sph", tone(8000), rate=8000)
    assert len(decode(path)) == 16000


def test_bytes_behind_the_samples_are_no_samples(tmp_path: Path) -> None:
    path = write_sphere(tmp_path / "a.sph", tone(100))
    path.write_bytes(path.read_bytes() + bytes(51))
    assert len(decode(path)) == 100


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sample_count": 10**9}, "expected a whole file, got one cut 1999996000 bytes short"),
        ({"sample_count": -1}, "expected sample_count from 0 to 1099511627775, got -1"),
        ({"sample_count": 0}, "expected at least one sample, got none"),
        ({"sample_rate": None}, "expected sample_rate from 1 to 2147483647, got none"),
        ({"sample_rate": 0}, "expected sample_rate from 1 to 2147483647, got 0"),
        ({"sample_rate": 16}, "expected 8000 to 192000 Hz, got 16 Hz"),
        ({"channel_count": 9}, "expected channel_count from 1 to 8, got 9"),
        ({"sample_n_bytes": 5}, "expected sample_n_bytes from 1 to 4, got 5"),
        ({"sample_byte_format": "0123"}, "expected sample_byte_format 01 or 10, got '0123'"),
        ({"sample_coding": "adpcm"}, "expected pcm, ulaw or alaw samples, got 'adpcm'"),
        (
            {"sample_coding": "pcm,embedded-wavpack-v1"},
            "expected no compression but embedded-shorten, got 'embedded-wavpack-v1'",
        ),
        ({"sample_coding": "ulaw"}, "expected ulaw samples of 1 byte, got 2 bytes"),
    ],
)
def test_a_header_that_lies_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    assert error_of(write_sphere(tmp_path / "a.wv1", tone(2000), **fields)) == message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sample_count": 2100}, "expected 2100 samples as announced, got 100 fewer"),
        ({"sample_count": 1900}, "expected the end after the 1900 samples announced, got none"),
        ({"channel_count": 2}, "expected 2 channels as announced, got 1"),
        ({"sample_count": None}, "expected sample_count beside shorten compression, got none"),
        (
            {"sample_coding": "ulaw,embedded-shorten-v2.00", "sample_n_bytes": 1},
            "expected ulaw samples, got shorten's type 5",
        ),
    ],
)
def test_a_header_that_contradicts_its_shorten_data_is_named(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    assert error_of(write_sphere(tmp_path / "a.wv1", tone(2000), shorten=True, **fields)) == message


def test_a_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    whole = {
        name: write_sphere(tmp_path / name, tone(500), shorten=name == "b.wv1").read_bytes()
        for name in ("a.wv1", "b.wv1")
    }
    for name, data in whole.items():
        for keep in [8, 15, 16, 60, 1023, 1024, 1029, 1040, len(data) // 2 + 512, len(data) - 8]:
            (tmp_path / name).write_bytes(data[:keep])
            error_of(tmp_path / name)


@pytest.mark.parametrize("size", ["     -1", "      7", "9999999", "   abcd", "       "])
def test_the_size_of_the_header_is_not_believed(tmp_path: Path, size: str) -> None:
    path = write_sphere(tmp_path / "a.wv1", tone(100))
    path.write_bytes(path.read_bytes().replace(b"   1024", size.encode(), 1))
    error_of(path)


def bomb(block: int) -> bytes:
    """Return a shorten stream of many blocks of zeros, 5 bits each."""
    bits = Bits()
    for value in (SIGNED_LOW_HIGH, 1, block, 0, 0, 0):
        bits.number(value)
    for _ in range(20_000):
        bits.unsigned(ZEROS, 2)
    return bits.stream()


@pytest.mark.parametrize(
    ("block", "announced", "message"),
    [
        (65535, 100_000, "expected shorten blocks of at most 1024 samples, got 65535"),
        (1024, 20_000 * 1024, "expected at most 512 samples a byte"),
        (1024, 100_000, "expected the end after the 100000 samples announced, got none"),
    ],
)
def test_a_bomb_of_silence_costs_an_error_and_little_memory(
    tmp_path: Path, block: int, announced: int, message: str
) -> None:
    path = write_sphere(tmp_path / "a.wv1", tone(5), shorten=True, sample_count=announced)
    path.write_bytes(path.read_bytes()[:1024] + bomb(block))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert error_of(path).startswith(message)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


PLAIN = header(
    sample_count=300, sample_rate=16000, channel_count=1, sample_n_bytes=2,
    sample_byte_format="01", sample_coding="pcm",
) + tone(300).astype("<i2").tobytes()  # fmt: skip
SHORTENED = header(
    sample_count=300, sample_rate=16000, channel_count=1, sample_n_bytes=2,
    sample_coding="pcm,embedded-shorten-v2.00",
) + encode(tone(300))  # fmt: skip


def hostile(seed: int) -> bytes:
    """A SPHERE file with bits, numbers and words of its header or bytes of its data exchanged."""
    rng = np.random.default_rng(seed)
    data = bytearray((PLAIN, SHORTENED)[seed % 2])
    end = 250 if rng.random() < 0.7 else len(data)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(7, min(end, len(data))))
        digits = [k for k in range(8, 250) if chr(data[k]).isdigit()]
        match int(rng.integers(4)):
            case 0:
                data[place] ^= 1 << int(rng.integers(8))
            case 1:
                data[digits[int(rng.integers(len(digits)))]] = int(rng.integers(45, 58))
            case 2:
                data[place:place] = rng.bytes(int(rng.integers(1, 9)))
            case 3:
                del data[place : place + int(rng.integers(1, 30))]
    if rng.random() < 0.2:
        del data[int(rng.integers(7, len(data))) :]
    return bytes(data)


def fuzz(seed: int, path: Path) -> bool:
    """Decode a hostile file; return whether it passed for a good one."""
    path.write_bytes(hostile(seed))
    began = time.process_time()
    try:
        samples, complaint = decode(path, limit=600), f"{path}: expected "
    except AudioError as error:
        samples, complaint = np.zeros(0, np.float32), str(error)
    assert time.process_time() - began < 10
    assert complaint.startswith(f"{path}: expected ")
    assert math.isfinite(float(np.abs(samples).max(initial=0)))
    return len(samples) > 0


@settings(max_examples=100)
@given(seed=st.integers(0, 2**40))
def test_a_hostile_file_is_decoded_or_refused_within_seconds(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fuzz(seed, tmp_path_factory.getbasetemp() / f"hostile-{os.getpid()}.wv1")
