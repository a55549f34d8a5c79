"""Decoding of real files, written here by the codecs that PyAV carries."""

import contextlib
import errno
import struct
import tracemalloc
import wave
from fractions import Fraction
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, BinaryIO, cast

import av
import numpy as np
import pytest
import soundfile
from av.audio.stream import AudioStream
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.audio import decode as decode_module
from cortado.model.audio.decode import channels_of, decode, decoded, stream
from cortado.model.audio.error import AudioError
from cortado.model.audio.frames import Channel
from cortado.model.audio.opening import open_audio
from cortado.tests.model.audio.recorded import streamed
from cortado.tests.model.audio.sphere_files import write_sphere

SECONDS = 2.0
CODECS = {
    "wav": "pcm_s16le",
    "flac": "flac",
    "mp3": "libmp3lame",
    "ogg": "vorbis",
    "opus": "libopus",
    "webm": "libopus",
    "m4a": "aac",
    "caf": "pcm_s16le",
}


def tone(rate: int, seconds: float = SECONDS) -> NDArray[np.float32]:
    """A 300 Hz tone whose loudness rises and falls, so that a shift in time shows."""
    time = np.arange(round(rate * seconds)) / rate
    swell = 0.3 * np.sin(np.pi * time / seconds) ** 2
    return (swell * np.sin(2 * np.pi * 300 * time)).astype(np.float32)


def write(path: Path, rate: int, channels: int, seconds: float = SECONDS) -> Path:
    samples = np.repeat(tone(rate, seconds)[:, None], channels, axis=1)
    if path.suffix == ".ogg":  # PyAV carries no good Vorbis encoder
        soundfile.write(path, samples, rate, format="OGG", subtype="VORBIS")
        return path
    layout = "mono" if channels == 1 else "stereo"
    with av.open(path, "w") as container:
        audio = container.add_stream(CODECS[path.suffix[1:]], rate=rate, layout=layout)
        assert isinstance(audio, AudioStream)
        interleaved = (samples * 32767).astype(np.int16).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(interleaved, "s16", layout)
        frame.sample_rate = rate
        frame.pts, frame.time_base = 0, Fraction(1, rate)
        for packet in [*audio.encode(frame), *audio.encode(None)]:
            container.mux(packet)
    return path


def write_wav(path: Path, samples: NDArray[np.int16], rate: int = 16000, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return path


def cut(path: Path, share: float) -> Path:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


def error_of(path: Path) -> str:
    with pytest.raises(AudioError) as caught:
        decode(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: expected ")
    assert ", got " in message
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000])
@pytest.mark.parametrize("suffix", CODECS)
def test_every_format_gives_the_same_tone(
    tmp_path: Path, suffix: str, rate: int, channels: int
) -> None:
    if suffix in ("opus", "webm") and rate == 44100:
        rate = 24000  # Opus knows no 44.1 kHz
    samples = decode(write(tmp_path / f"tone.{suffix}", rate, channels))
    wanted = tone(16000)
    assert samples.dtype == np.float32
    assert abs(len(samples) - len(wanted)) < 0.1 * 16000  # lossy codecs pad the end
    length = min(len(samples), len(wanted))
    assert np.abs(samples[:length] - wanted[:length]).mean() < 0.02


@given(st.lists(st.integers(-32768, 32767), min_size=1, max_size=5000))
@settings(max_examples=25)
def test_a_16_khz_mono_wav_is_its_samples_over_32768(
    tmp_path_factory: pytest.TempPathFactory, values: list[int]
) -> None:
    samples = np.array(values, np.int16)
    path = write_wav(tmp_path_factory.mktemp("exact") / "exact.wav", samples)
    np.testing.assert_array_equal(decode(path), samples.astype(np.float32) / 32768)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_every_sample_format_has_the_same_scale(tmp_path: Path, subtype: str) -> None:
    path = tmp_path / "scale.wav"
    soundfile.write(path, tone(16000), 16000, subtype=subtype)
    np.testing.assert_allclose(decode(path), tone(16000), atol=1.01 / 128)


def test_channels_are_averaged(tmp_path: Path) -> None:
    left_and_right = np.array([[100, 300], [-200, 0], [32767, -32767]], np.int16)
    path = write_wav(tmp_path / "stereo.wav", left_and_right, channels=2)
    np.testing.assert_array_equal(decode(path), np.array([200, -100, 0], np.float32) / 32768)


@pytest.mark.parametrize(("suffix", "codec"), [(".m4a", "aac"), (".opus", "libopus")])
def test_eight_channels_are_heard(tmp_path: Path, suffix: str, codec: str) -> None:
    path, loudness = tmp_path / f"film{suffix}", np.array([1, 0, 0, 0, 0.5, 0, 0.25, 0])
    both = (tone(48_000)[:, None] * loudness * 32767).astype(np.int16)
    with av.open(path, "w") as container:
        sound = cast(AudioStream, container.add_stream(codec, rate=48_000))
        sound.layout = "7.1"
        frame = av.AudioFrame.from_ndarray(both.reshape(1, -1), format="s16", layout="7.1")
        frame.sample_rate = 48_000
        for packet in [*sound.encode(frame), *sound.encode(None)]:
            container.mux(packet)
    with open_audio(path) as file:
        assert channels_of(path, file) == 8
    heard = decode(path)
    assert heard.std() == pytest.approx(tone(16_000).std() * loudness.mean(), rel=0.2)


def test_a_header_of_no_channels_is_refused(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "none.wav", np.zeros((100, 1), np.int16), channels=1)
    header = bytearray(path.read_bytes())
    header[22:24] = bytes(2)
    path.write_bytes(header)
    with open_audio(path) as file, pytest.raises(AudioError, match="of 1 channel or more"):
        channels_of(path, file)


def test_a_seek_in_vain_is_not_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "damaged.caf"
    soundfile.write(path, tone(16_000), 16_000)
    data = bytearray(path.read_bytes())
    length = data.find(b"data") + 4
    data[length : length + 8] = struct.pack(">q", 2**62)
    path.write_bytes(data)
    with pytest.raises(AudioError):
        decode(path)
    assert (capfd.readouterr().err, caplog.text) == ("", "")


def test_one_channel_can_be_had_of_any_format(tmp_path: Path) -> None:
    both = np.array([[100, 300], [-200, 0], [32767, -32767]], np.int16)
    wav = write_wav(tmp_path / "stereo.wav", both, channels=2)
    for path in (wav, write_sphere(tmp_path / "stereo.sph", both.astype(np.int64))):
        with open_audio(path) as file:
            assert channels_of(path, file) == 2
            for number in range(2):
                file.seek(0)
                heard = np.concatenate(list(decoded(path, file, Channel(number, 2))))
                np.testing.assert_array_equal(heard, both[:, number].astype(np.float32) / 32768)
            file.seek(0)
            with pytest.raises(AudioError, match="expected audio of 3 channels, got 2 channels"):
                list(decoded(path, file, Channel(0, 3)))


def test_a_stream_is_the_whole_file_in_pieces(tmp_path: Path) -> None:
    path = write(tmp_path / "tone.flac", 44100, 2)
    pieces = list(stream(path))
    assert len(pieces) > 10
    np.testing.assert_array_equal(np.concatenate(pieces), decode(path))


def test_a_long_file_streams_in_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.flac"
    soundfile.write(path, np.zeros(16000 * 600, np.int16), 16000)
    count, peak = streamed(path)
    assert count == 16000 * 600
    assert peak < 2e6  # bytes; the whole would be 38 MB


def test_more_audio_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "tone.wav", 16000, 1)
    assert len(decode(path, limit=SECONDS)) == SECONDS * 16000
    with pytest.raises(AudioError, match=r"expected at most 1 s of audio, got more"):
        decode(path, limit=1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.wav", "got nothing: it does not exist"),
        ("", "got a directory"),
        ("/dev/zero", "got a device or pipe"),
        ("empty.wav", "got an empty file"),
        ("none.wav", "expected at least one sample, got none"),
    ],
)
def test_what_has_no_sound_in_it_is_named(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty.wav").touch()
    write_wav(tmp_path / "none.wav", np.zeros(0, np.int16))
    assert message in error_of(tmp_path / name)


def test_a_name_with_a_line_break_stays_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(AudioError) as caught:
        decode(tmp_path / "two\nlines.wav")
    assert "\n" not in str(caught.value)


def test_a_name_that_no_file_can_have_is_an_error() -> None:
    with pytest.raises(AudioError, match="null"):
        decode(Path("a\0b.wav"))


@pytest.mark.parametrize("content", [b"hello world\n" * 99, bytes(range(256)) * 40, b"RIFF", b"\0"])
def test_what_is_no_audio_is_an_unknown_format(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "noise.wav"
    path.write_bytes(content)
    assert "expected wav, flac, mp3, ogg, opus, webm, m4a, sphere or other audio" in error_of(path)


def test_a_playlist_cannot_make_us_open_other_files(tmp_path: Path) -> None:
    other = write(tmp_path / "other.mp3", 16000, 1)
    path = tmp_path / "list.m3u8"
    path.write_text(f"#EXTM3U\n#EXTINF:2,\n{other}\n")
    error_of(path)


def test_a_film_without_sound_has_no_audio_stream(tmp_path: Path) -> None:
    path = tmp_path / "silent.webm"
    with av.open(path, "w") as container:
        video = container.add_stream("libvpx", rate=10)
        video.width = video.height = 64
        video.pix_fmt = "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), "rgb24")
        for packet in [*video.encode(picture), *video.encode(None)]:
            container.mux(packet)
    assert "without sound" in error_of(path)


@pytest.mark.parametrize("suffix", CODECS)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_cut_file_is_an_error(tmp_path: Path, suffix: str, share: float) -> None:
    error_of(cut(write(tmp_path / f"cut.{suffix}", 48000, 2), share))


def test_a_wav_cut_at_a_whole_packet_is_still_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "cut.wav", 16000, 1)
    path.write_bytes(path.read_bytes()[: 44 + 2 * 4096])
    assert "bytes short" in error_of(path)


@pytest.mark.parametrize("length", [0, 0x7FFFF000, 0xFFFFFFFF])
def test_a_wav_that_was_written_into_a_pipe_is_whole(tmp_path: Path, length: int) -> None:
    path = write_wav(tmp_path / "pipe.wav", np.arange(1000, dtype=np.int16))
    data = bytearray(path.read_bytes())
    data[40:44] = struct.pack("<I", length)
    path.write_bytes(data)
    assert len(decode(path)) == 1000


@pytest.mark.parametrize("suffix", ["flac", "mp3", "ogg", "opus", "m4a"])
def test_corrupt_data_in_the_middle_is_an_error(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"corrupt.{suffix}", 48000, 2, seconds=5)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 400] = np.random.default_rng(1).bytes(400)
    path.write_bytes(data)
    error_of(path)


def test_a_pipe_with_an_index_behind_its_sound_says_what_helps(tmp_path: Path) -> None:
    class Pipe(BytesIO):
        def seekable(self) -> bool:
            return False

    sound = Pipe(write(tmp_path / "talk.m4a", 48000, 1, seconds=20).read_bytes())
    with pytest.raises(AudioError, match="standard input: expected a file, or mp4 audio with its"):
        list(decoded(Path("-"), sound))


def test_a_disk_that_fails_is_named(tmp_path: Path) -> None:
    class Failing(FileIO):
        def read(self, size: int | None = -1, /) -> Any:
            if self.tell() > 50_000:
                raise OSError(errno.EIO, "Input/output error")
            return super().read(size)

    path = tmp_path / "tone.wav"
    soundfile.write(path, tone(16_000), 16_000)
    with (
        Failing(path) as file,
        pytest.raises(AudioError, match=r"tone.wav: .* 'Input/output error'"),
    ):
        list(decoded(path, cast(BinaryIO, file)))


def test_a_float_file_of_absurd_values_is_an_error(tmp_path: Path) -> None:
    for value in (np.nan, np.inf, 1e30):
        path = tmp_path / "absurd.wav"
        soundfile.write(path, np.array([0.1, value], np.float32), 16000, subtype="FLOAT")
        assert "full scale" in error_of(path)


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        (22, "<H", 65535),
        (24, "<I", 1),
        (24, "<I", 0xFFFFFFFF),
        (34, "<H", 0),
        (34, "<H", 65535),
        (40, "<I", 0x70000000),
    ],
    ids=["channels", "rate 1", "rate 2^32", "no bits", "2^16 bits", "length"],
)
def test_a_lying_header_costs_an_error_and_no_memory(
    tmp_path: Path, offset: int, form: str, value: int
) -> None:
    path = write_wav(tmp_path / "hostile.wav", np.zeros(20000, np.int16))
    data = bytearray(path.read_bytes())
    data[offset : offset + struct.calcsize(form)] = struct.pack(form, value)
    path.write_bytes(data)
    tracemalloc.start()
    try:
        error_of(path)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()


def test_a_small_file_of_endless_silence_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "silence.flac"
    soundfile.write(path, np.zeros(16_000 * 60, np.int16), 16_000)
    assert sum(map(len, decode_module.stream(path))) == 16_000 * 60
    monkeypatch.setattr(decode_module, "HOUR", 10)
    monkeypatch.setattr(decode_module, "LEAST_RATE", path.stat().st_size / 20)
    assert f"at most 30 s in {path.stat().st_size} bytes, got more" in error_of(path)


@given(st.binary(max_size=3000), st.sampled_from([b"", b"RIFF\0\0\0\0WAVEfmt ", b"OggS", b"fLaC"]))
@settings(max_examples=80)
def test_any_bytes_give_samples_or_an_audio_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, magic: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "fuzz.bin"
    path.write_bytes(magic + content)
    with contextlib.suppress(AudioError):
        assert len(decode(path)) > 0
