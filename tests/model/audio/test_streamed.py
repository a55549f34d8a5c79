"""Compressed audio that comes in messages, of any size, and data that is no audio."""

import io
import threading
import time
import tracemalloc
import wave
from collections.abc import Iterator
from itertools import pairwise

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream
from av.container import InputContainer

from cortado.model.arrays import Samples
from cortado.model.audio import decode, streamed
from cortado.model.audio.error import AudioError
from cortado.model.audio.streamed import OpusPackets, StreamedAudio, format_of
from cortado.model.audio.telephone import linear
from cortado.tests.server.doors.sound import CODECS, encoded, fragment, wav
from cortado.tests.server.running import wait_for

SECONDS = 3.0
TONE = (0.3 * np.sin(2 * np.pi * 300 * np.arange(int(16_000 * SECONDS)) / 16_000)).astype(
    np.float32
)
LOST = b"\xff" * 40_000  # no AAC
LIVE = [kind for kind in CODECS if kind != "m4a"]


def pushed(data: bytes, size: int, expected: str | None = None) -> Samples:
    """Return the samples of data that comes in messages of a size."""
    audio = StreamedAudio("audio", expected)
    try:
        pieces = [p for k in range(0, len(data), size) for p in audio.push(data[k : k + size])]
        return np.concatenate([*pieces, *audio.end(), np.zeros(0, np.float32)])
    finally:
        audio.close()


@pytest.mark.parametrize("kind", LIVE)
def test_messages_of_any_size_give_the_same_samples(kind: str) -> None:
    data = encoded(TONE, kind)
    whole = pushed(data, len(data))
    assert len(whole) / 16_000 == pytest.approx(SECONDS, abs=0.15)
    assert 0.15 < np.abs(whole[8000:40_000]).mean() < 0.25
    for size in (100, 4099):
        assert np.array_equal(pushed(data, size), whole)


@pytest.mark.parametrize(
    ("kind", "lag"), [("ogg", 0.3), ("webm", 0.3), ("mp3", 0.5), ("aac", 0.5), ("wav", 0.3)]
)
def test_sound_is_there_while_more_is_awaited(kind: str, lag: float) -> None:
    data = wav(TONE) if kind == "wav" else encoded(TONE, kind)
    audio = StreamedAudio("audio")
    half = sum(map(len, audio.push(data[: len(data) // 2])))
    audio.close()
    assert half / 16_000 > SECONDS / 2 - lag - (1.0 if kind in ("ogg", "webm") else 0)


def test_a_stream_that_is_cut_is_heard_as_far_as_it_goes() -> None:
    for kind in LIVE:
        data = encoded(TONE, kind)
        assert len(pushed(data[: len(data) * 2 // 3], 999)) > 0.4 * len(TONE)


@pytest.mark.parametrize(
    "codec", ["pcm_u8", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_mulaw", "pcm_alaw"]
)
def test_a_wav_stream_may_have_any_samples(codec: str) -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="wav") as output:
        stream = output.add_stream(codec, rate=16_000)
        assert isinstance(stream, AudioStream)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(TONE[None], format="fltp", layout="mono")
        frame.sample_rate = 16_000
        converted = av.AudioResampler(format=stream.format.name).resample(frame)
        for packet in [p for one in converted for p in stream.encode(one)]:
            output.mux(packet)
    found = pushed(file.getvalue(), 3001)
    assert len(found) == len(TONE)
    assert np.abs(found - TONE).max() < 0.04


def test_a_wav_stream_is_heard_from_its_first_samples_to_its_last() -> None:
    header, listed = wav(TONE)[:44], b"LIST" + (4).to_bytes(4, "little") + b"more"
    data = header[:36] + listed + wav(TONE)[36:] + listed * 1000  # which is no sound
    audio = StreamedAudio("audio")
    first = [p for k in range(0, 9000, 100) for p in audio.push(data[k : k + 100])]
    assert sum(map(len, first)) > 2000
    rest = [*audio.push(data[9000:]), *audio.end()]
    found = np.concatenate([*first, *rest])
    assert len(found) == len(TONE)
    assert np.abs(found - TONE).max() < 1e-4
    endless = bytearray(wav(TONE))
    endless[40:44] = b"\xff\xff\xff\xff"  # as one writes who does not know how long it becomes
    assert len(pushed(bytes(endless), 999)) == len(TONE)


def of_64_bits(seconds: int) -> bytes:
    """A WAV file of integers of 64 bits."""
    with wave.open(file := io.BytesIO(), "wb") as writer:
        writer.setparams((1, 4, 32_000, 0, "NONE", ""))
        writer.writeframes(bytes(8 * 16_000 * seconds))
    data = bytearray(file.getvalue())
    data[24:28] = (16_000).to_bytes(4, "little")  # Hz
    data[32:36] = b"\x08\0\x40\0"  # bytes of a sample, bits
    return bytes(data)


def test_what_cannot_be_decoded_is_one_error_and_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, audio = of_64_bits(20), StreamedAudio("audio")
    expected = "audio: expected samples of 8 to 32 bits, or floats, got s64 ones"
    for _ in range(3):
        with pytest.raises(AudioError, match=expected):
            list(audio.push(data))
    assert audio._decoder is not None
    assert len(audio._decoder._bytes) < len(data)

    def fails(*_: object) -> Iterator[Samples]:
        raise RuntimeError("why ever")
        yield

    monkeypatch.setattr(streamed, "streamed", fails)
    with pytest.raises(AudioError, match="got what cannot be decoded: why ever"):
        pushed(wav(TONE), 4096)


def test_two_channels_become_their_mean() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((2, 2, 16_000, 0, "NONE", ""))
        writer.writeframes(np.tile(np.array([8192, 16_384], "<i2"), 16_000).tobytes())
    assert np.allclose(pushed(file.getvalue(), 5000), 0.375)


@pytest.mark.parametrize(
    ("data", "expected", "message"),
    [
        (b"hello, this is text", None, "expected wav, flac, .* got data that begins with 68 65 6c"),
        (wav(TONE), "flac", "expected flac, got wav audio"),
        (b"OggS" + bytes(range(256)) * 40, "ogg", "audio: expected .* got "),
        (b"fLaC" + bytes(9000), None, "audio: expected .* got "),
        (b"\x1aE\xdf\xa3" + b"\x99" * 9000, None, "an unknown or broken format"),
        (b"RIFF\xff\xff\xff\xffWAVEfmt \x00\x00\x00\x00", None, "audio: expected .* got "),
        (b"short", None, "got 5 bytes"),
    ],
)
def test_a_header_that_lies_is_one_clear_error(
    data: bytes, expected: str | None, message: str
) -> None:
    with pytest.raises(AudioError, match=message) as caught:
        pushed(data, 4096, expected)
    assert "\n" not in str(caught.value)


def test_a_header_with_an_impossible_rate_is_refused() -> None:
    with pytest.raises(AudioError, match="expected 8000 to 192000 Hz, got 500 Hz"):
        pushed(wav(TONE[:4000], rate=500), 1000)


def test_a_stream_takes_constant_memory() -> None:
    data = encoded(TONE, "aac")  # which may be repeated
    audio = StreamedAudio("audio")
    sizes = []
    tracemalloc.start()
    for turn in range(24):
        assert sum(map(len, audio.push(data))) > 0.5 * len(TONE)
        if turn % 6 == 5:
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    audio.close()
    assert all(after < before + 50_000 for before, after in pairwise(sizes))


def test_a_large_message_is_decoded_piece_by_piece() -> None:
    audio = StreamedAudio("audio")
    first = next(audio.push(encoded(np.zeros(16_000 * 60, np.float32), "flac")))
    audio.close()
    assert len(first) < 16_000


def test_packets_that_cannot_be_decoded_give_others_their_turn_and_are_not_endless() -> None:
    audio = StreamedAudio("audio")
    assert 3000 // 32 <= sum(not len(piece) for piece in audio.push(fragment(3000, LOST))) < 3000
    audio.close()
    with pytest.raises(AudioError, match="got corrupt data after"):
        pushed(fragment(20_000, LOST), 2**20)


def test_what_comes_before_the_first_sound_is_bounded() -> None:
    picture = bytes([6]) + (2**20).to_bytes(3, "big") + bytes(2**20)
    flac = encoded(TONE, "flac")
    audio = StreamedAudio("audio")
    assert [*audio.push(flac[:4] + bytes([flac[4] & 127]) + flac[5:42])] == []
    for _ in range(7):
        assert [*audio.push(picture)] == []
    with pytest.raises(AudioError, match="expected sound within the first 8 MiB, got other data"):
        list(audio.push(picture))
    audio.close()


def test_many_empty_tags_take_little_time() -> None:
    audio = StreamedAudio("audio")
    began = time.process_time()
    assert [*audio.push(b"ID3\x04\0\0\0\0\0\0" * 200_000)] == []
    assert time.process_time() - began < 2
    audio.close()


@pytest.mark.parametrize("kind", ["flac", "flac/ogg"])
def test_few_bytes_of_endless_silence_are_refused(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encoded(np.zeros(16_000 * 60, np.float32), kind)
    assert len(pushed(data, len(data))) == 16_000 * 60
    monkeypatch.setattr(decode, "HOUR", 10)
    monkeypatch.setattr(decode, "LEAST_RATE", len(data) / 20)
    with pytest.raises(AudioError, match=f"at most 30 s in {len(data)} bytes, got more"):
        pushed(data, len(data))


ID3 = b"ID3\x04\0\0\0\0\x10\0" + bytes(2048)
LARGE_ID3 = b"ID3\x04\0\x10\0\x10\0\0" + bytes(2**18 + 10)  # with a footer


@pytest.mark.parametrize("tags", [ID3, ID3 + ID3, LARGE_ID3])
@pytest.mark.parametrize("kind", ["aac", "flac", "mp3"])
def test_a_tag_before_a_stream_is_skipped_whatever_follows(kind: str, tags: bytes) -> None:
    data = encoded(TONE, kind)
    whole = pushed(data, len(data))
    for size in (50, 4099, len(tags) + len(data)):
        assert np.array_equal(pushed(tags + data, size), whole)
    with pytest.raises(AudioError, match=f"expected ogg, got {kind} audio"):
        pushed(tags + data, 999, "ogg")


def test_a_tag_may_be_padded_and_is_no_audio_alone() -> None:
    assert len(pushed(ID3 + bytes(500) + encoded(TONE, "mp3")[45:], 999)) > 0.9 * len(TONE)
    for data in (ID3, ID3[:900], ID3 + b"short"):
        with pytest.raises(AudioError, match="got an ID3 tag alone"):
            pushed(data, 100)


def test_a_large_tag_is_not_kept() -> None:
    audio = StreamedAudio("audio")
    tag = b"ID3\x04\0\0\x7f\x7f\x7f\x7f"  # 256 MB of pictures
    tracemalloc.start()
    try:
        assert [*audio.push(tag), *(p for _ in range(100) for p in audio.push(bytes(2**20)))] == []
        assert tracemalloc.get_traced_memory()[0] < 2**20
    finally:
        tracemalloc.stop()
        audio.close()


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    streams = [StreamedAudio("audio") for _ in range(5)]
    for stream in streams:
        next(stream.push(encoded(TONE, "mp3")))
        stream.close()
    pushed(encoded(TONE, "ogg"), 999)
    assert wait_for(lambda: threading.active_count() <= before)


def test_bare_opus_packets_are_decoded() -> None:
    audio, found = OpusPackets("audio"), []
    with av.open(io.BytesIO(encoded(TONE, "ogg"))) as container:
        assert isinstance(container, InputContainer)
        for packet in container.demux(audio=0):
            found += list(audio.push(bytes(packet)))
    found += list(audio.end())
    assert sum(map(len, found)) / 16_000 == pytest.approx(SECONDS, abs=0.05)
    with pytest.raises(AudioError, match="expected an Opus packet a message, got other data"):
        list(OpusPackets("audio").push(b"\xff" * 3000))


def test_telephone_codes_are_those_of_the_standard() -> None:
    assert linear(bytes([0xFF, 0x7F, 0x00, 0x80]), "mulaw").tolist() == [0, 0, -32124, 32124]
    assert linear(bytes([0xD5, 0x55, 0xAA, 0x2A]), "alaw").tolist() == [8, -8, 32256, -32256]


def test_an_mp4_whose_index_comes_last_is_told_what_can_be_heard_as_it_comes() -> None:
    with pytest.raises(AudioError, match="expected mp4 audio in fragments, or with its index"):
        pushed(encoded(TONE, "m4a", live=False), 999, "mp4")


def test_every_known_beginning_is_told_apart() -> None:
    found = {kind: format_of(encoded(TONE[:8000], kind)) for kind in LIVE}
    assert found == {kind: "mp4" if kind == "fragments" else kind for kind in LIVE}
    assert format_of(encoded(TONE[:8000], "m4a", live=False)) == "mp4"
    assert format_of(wav(TONE)) == "wav"
    assert format_of(bytes(20)) is None
