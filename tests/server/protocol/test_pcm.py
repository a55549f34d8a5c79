"""Audio on the wire."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortado.server.protocol.messages import SAMPLE_BYTES, ErrorCode, ProtocolError
from cortado.server.protocol.pcm import PcmDecoder, encode, samples_of

WAVE = np.sin(np.arange(1000) / 5).astype(np.float32)
ENCODINGS = ["pcm_s16le", "pcm_f32le"]  # to which samples are encoded


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_float_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(ProtocolError, match="expected finite samples, got") as caught:
        PcmDecoder("pcm_f32le").decode(np.array([0, bad, 0], "<f4").tobytes())
    assert caught.value.code == ErrorCode.INVALID_AUDIO


def test_floats_beyond_full_scale_are_clipped() -> None:
    samples = np.array([1e30, -2, 0.25], "<f4").tobytes()
    assert PcmDecoder("pcm_f32le").decode(samples).tolist() == [1, -1, 0.25]


def test_integers_span_minus_one_to_one() -> None:
    samples = np.array([-32768, 0, 16384, 32767], "<i2").tobytes()
    assert PcmDecoder("pcm_s16le").decode(samples).tolist() == [-1, 0, 0.5, 32767 / 32768]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_samples_are_encoded_as_the_server_reads_them(encoding: str) -> None:
    samples = np.array([0, 0.5, -1, 1, 1 / 32768], np.float32)
    data = encode(samples, encoding)
    if encoding == "pcm_f32le":
        assert np.array_equal(np.frombuffer(data, "<f4"), samples)
    else:
        assert np.frombuffer(data, "<i2").tolist() == [0, 16384, -32768, 32767, 1]
    with pytest.raises(ValueError, match="expected samples"):
        encode(samples[None], encoding)
    with pytest.raises(ValueError, match=r"expected samples .*, got the number 0.5: a piece is"):
        encode(samples[1], encoding)


def test_what_samples_are_not_read_from_or_written_to_is_said() -> None:
    with pytest.raises(ValueError, match=r"expected a raw encoding .* got webm"):
        samples_of(b"", "webm")
    with pytest.raises(ValueError, match=r"expected pcm_s16le or pcm_f32le .* got mulaw"):
        encode(WAVE, "mulaw")


def test_24_bits_have_a_sign() -> None:
    data = bytes([0, 0, 0x80, 0xFF, 0xFF, 0x7F, 0, 0, 0x40])
    assert samples_of(data, "pcm_s24le").tolist() == pytest.approx([-1, 1, 0.5])


@given(st.sampled_from(list(SAMPLE_BYTES)), st.lists(st.integers(0, 900), max_size=30))
def test_samples_do_not_depend_on_where_bytes_are_cut(encoding: str, cuts: list[int]) -> None:
    data = encode(WAVE, "pcm_f32le")  # whose bytes are samples of any encoding
    whole = PcmDecoder(encoding).decode(data)
    decoder, pieces, at = PcmDecoder(encoding), [], 0
    for size in [*cuts, len(data)]:
        pieces.append(decoder.decode(data[at : at + size]))
        at += size
    assert np.array_equal(np.concatenate(pieces), whole)
