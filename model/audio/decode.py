"""Audio files of any kind as 16 kHz mono samples, in a stream of constant memory or whole."""

import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from io import IOBase
from math import inf
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import av
import numpy as np
import soxr
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import InputContainer
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.model.audio.container import Mp3Length, missing_bytes, mp3_length
from cortado.model.audio.damage import Damage
from cortado.model.audio.remote import fetched, is_remote
from cortado.model.audio.sphere import SphereError, is_sphere, open_sphere
from cortado.model.audio.timeline import Timeline
from cortado.model.features.framing import SAMPLE_RATE

MIN_RATE = 8_000  # Hz; a telephone's, below it there is too little speech left
MAX_RATE = 192_000  # Hz
HOUR = 3600  # seconds
DECODE_LIMIT = 4 * HOUR  # seconds that `decode` holds in memory: 0.9 GB
DURATION_TOLERANCE = 0.05  # seconds; codecs prime and round, less than a block of flac
PADDED = ("matroska,webm", "caf")  # formats that state the codec's first and last padding, too
GUESSED = ("aac", "ac3", "amr", "mpegts", "mpeg")  # formats that state no duration: FFmpeg guesses
LEAST_RATE = 16  # bytes a second beyond the first hour: speech takes 80, packed silence can take 2
MOST_LOST = 10_000  # packets one behind the other that cannot be decoded, before it is given up
SOME_LOST = 32  # of them after which the caller has its turn: one takes up to 20 us
MANY = 8  # channels from which PyAV does not find the end of a frame's planes, and crashes
NOTHING = np.zeros(0, np.float32)
LOUDEST = 8.0  # times full scale; lossy codecs overshoot a little, corrupt floats by far

STDIN = Path("-")  # standard input, which is decoded as it comes

LITTLE = 4096  # bytes that are read at a time of a stream that comes slowly
AT_ONCE = {"probesize": "2048", "analyzeduration": "0"}  # FFmpeg's: no seconds to look ahead

EXPECTED = "wav, flac, mp3, ogg, opus, webm, m4a, sphere or other audio"
# No playlists: they would open other files and addresses. Of these none does: mov follows its
# references only if it is told to, and the captions within an avi file are read from memory.
FORMATS = (
    "wav,w64,aiff,au,caf,flac,mp3,aac,ogg,matroska,webm,mov,mp4,m4a,"
    "asf,avi,mpegts,mpeg,amr,ac3,wv,tta"
)


class Channel(NamedTuple):
    """One channel of audio that has several."""

    number: int  # from 0
    of: int


class AudioError(ValueError):
    """A file that gives no sound: the message is one line with its path, expected and got."""

    def __init__(self, path: Path, expected: str, got: str) -> None:
        self.facts = path, expected, got
        name = "standard input" if path == STDIN else str(path)
        name = name if name.isprintable() else repr(name)
        super().__init__(f"{name}: expected {expected}, got {' '.join(got.split())}")

    def __reduce__(self) -> tuple[type["AudioError"], tuple[Path, str, str]]:
        """Return what makes it again in another process."""
        return AudioError, self.facts


class Resampler:
    """One stream's change of sample rate, by soxr HQ: any chunking gives the same samples.

    The output lags behind the input by 37 ms at 48 kHz, 40 ms at 44.1 kHz and up to 115 ms at
    8 kHz (the filter and its blocks); at equal rates by nothing, and samples pass untouched.

    Raises: ValueError for rates outside 8000..192000 Hz.
    """

    def __init__(self, source_rate: int, target_rate: int = SAMPLE_RATE) -> None:
        for rate in (source_rate, target_rate):
            if not MIN_RATE <= rate <= MAX_RATE:
                raise ValueError(
                    f"expected a sample rate of {MIN_RATE} to {MAX_RATE} Hz, got {rate}"
                )
        self._stream: soxr.ResampleStream | None = None
        if source_rate != target_rate:
            self._stream = soxr.ResampleStream(
                source_rate, target_rate, 1, dtype="float32", quality="HQ"
            )
        self._finished = False

    def push(self, samples: NDArray[Any]) -> Samples:
        """Return the (n,) samples at the target rate that are ready after (m,) more at the source.

        Raises: ValueError for anything but one dimension, or after `finish`.
        """
        if samples.ndim != 1:
            raise ValueError(f"expected samples of shape (n,), got {samples.shape}")
        if self._finished:
            raise ValueError("expected no samples after finish, got more")
        samples = samples.astype(np.float32, copy=False)
        return samples if self._stream is None else self._stream.resample_chunk(samples)

    def finish(self) -> Samples:
        """Return the (n,) samples still inside; nothing may be pushed afterwards."""
        last, self._finished = self._finished, True
        if self._stream is None or last:
            return NOTHING
        return self._stream.resample_chunk(NOTHING, last=True)


def decode(path: Path, limit: float = DECODE_LIMIT) -> Samples:
    """Return the (n,) samples of a file at 16 kHz, mono, channels averaged, in [-1, 1).

    A 16 kHz mono file of 16-bit samples comes out as exactly samples / 32768.

    Raises: AudioError for a file that gives no sound or more than `limit` seconds of it.
    """
    pieces, count = [], 0
    with closing(stream(path)) as source:
        for piece in source:
            pieces.append(piece)
            count += len(piece)
            if count > limit * SAMPLE_RATE:
                raise AudioError(path, f"at most {limit:g} s of audio", "more")
    return np.concatenate(pieces)


def stream(path: Path) -> Generator[Samples, None, None]:
    """Yield the samples of `decode` in pieces of a codec frame or none, in constant memory.

    Raises: AudioError at the first thing that is wrong, which may lie at the end of the file.
    """
    with open_audio(path) as file:
        yield from decoded(path, file)


def channels_of(path: Path, file: BinaryIO) -> int:
    """Return the number of channels of a file that can be read again; it stands at its beginning.

    Raises: AudioError for a file that gives no sound.
    """
    try:
        return _channels_of(path, file)
    except OSError as error:
        raise _unreadable(path, error) from error


def _channels_of(path: Path, file: BinaryIO) -> int:
    if is_sphere(file):
        try:
            count = open_sphere(file).header.channels
        except SphereError as error:
            raise AudioError(path, error.expected, error.got) from error
    else:
        with _container(path, file) as container:
            count = _codec(path, container.streams.audio[0]).layout.nb_channels
    if count < 1:
        raise AudioError(path, "audio of 1 channel or more", "one of none, or too many")
    file.seek(0)
    return count


def decoded(
    path: Path, file: BinaryIO, channel: Channel | None = None
) -> Generator[Samples, None, None]:
    """Yield the samples of a file that `open_audio` opened: of one `channel`, or the mean of all.

    Raises: AudioError as `stream` does.
    """
    try:
        yield from _decoded(path, file, channel)
    except OSError as error:  # of a disk, or of a network
        raise _unreadable(path, error) from error


def _decoded(path: Path, file: BinaryIO, channel: Channel | None) -> Generator[Samples, None, None]:
    seekable = file.seekable()
    if seekable and is_sphere(file):
        yield from _resampled(path, _sphere(path, file, channel))
        return
    missing = missing_bytes(file) if seekable else 0
    length = mp3_length(file) if seekable else None
    with _container(path, file) as container:
        timeline = Timeline(container, seekable)
        end = _stated_end(container, length, timeline)
        size = os.fstat(file.fileno()).st_size if seekable else inf
        frames = _mono_frames(path, container, channel, timeline)
        heard = yield from _resampled(path, frames, lambda: size)
        tolerance = max(DURATION_TOLERANCE, _padding(container, timeline.longest))
    if missing:
        raise AudioError(path, "a whole file", f"one cut {missing} bytes short")
    if (reached := max(heard, timeline.end)) < end - tolerance:
        raise AudioError(path, f"the {end:.2f} s that it announces", f"{reached:.2f} s")


class Readable(Protocol):
    """Whatever FFmpeg can read a stream from."""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`, none at the end."""


class Arriving(Readable, Protocol):
    """A stream of which more comes."""

    received: int  # bytes that have come so far


def streamed(
    path: Path, file: Arriving, kind: str, channel: Channel | None = None
) -> Generator[Samples, None, float]:
    """Yield the samples of a stream of the format `kind` as it comes; return its seconds.

    They are of one `channel`, or the mean of all. The stream may end before what its header
    announces. Errors say `path`.

    Raises: AudioError at the first thing that is wrong.
    """
    with _container(path, file, kind, AT_ONCE) as container:
        frames = _mono_frames(path, container, channel, Timeline(container, False))
        return (yield from _resampled(path, frames, lambda: file.received))


def open_audio(path: Path, unwanted: Event | None = None) -> BinaryIO:
    """Open a file, or standard input, for `decoded`; one that lies elsewhere is fetched.

    Raises: AudioError where there is nothing to read, or is `unwanted` before it is fetched.
    """
    try:
        if path == STDIN:  # unbuffered: what is there is decoded at once
            return cast(BinaryIO, open(0, "rb", buffering=0, closefd=False))
        file = fetched(path, unwanted) if is_remote(path) else _opened(path)
    except AudioError:
        raise
    except FileNotFoundError as error:
        raise AudioError(path, "an audio file", "nothing: it does not exist") from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _unreadable(path, error) from error
    if os.fstat(file.fileno()).st_size == 0:
        file.close()
        raise AudioError(path, EXPECTED, "an empty file: record or copy it again")
    return file


def _unreadable(path: Path, error: OSError | ValueError) -> AudioError:
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return AudioError(path, "a readable file", f"'{reason}'")


def _opened(path: Path) -> BinaryIO:
    """Open a file of this disk.

    Raises: AudioError for what is none, and OSError or ValueError where it cannot be opened.
    """
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind):
        got = "a directory" if stat.S_ISDIR(kind) else "a device or pipe"
        raise AudioError(path, "an audio file", got)
    return path.open("rb")


class _Seekable:
    """A file of which FFmpeg reads here and there.

    PyAV raises the first exception of a file later on, and prints all others; so there is but one.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.tell = file, file.tell
        self._has_failed = False

    def read(self, size: int) -> bytes:
        """Return the next bytes; none where it was closed, for then nobody wants them."""
        return b"" if self._file.closed else self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Return the new place, -1 where there is no such place, not for the first time."""
        try:
            return self._file.seek(offset, whence)
        except (OSError, ValueError):
            if self._has_failed:
                return -1
            self._has_failed = True
            raise


def _container(
    path: Path, file: Readable, formats: str = FORMATS, probing: dict[str, str] | None = None
) -> InputContainer:
    """Open a file whose format is among those named; with `probing` it is the one named."""
    if isinstance(file, IOBase) and file.seekable():
        file = _Seekable(cast(BinaryIO, file))
    try:
        options = {"format_whitelist": formats, "err_detect": "crccheck", **(probing or {})}
        kind, size = (formats, LITTLE) if probing else (None, 32_768)
        container = av.open(
            file, "r", format=kind, options=options, metadata_errors="replace", buffer_size=size
        )
    except av.FFmpegError as error:
        got = "an unknown or broken format; ffmpeg may convert it to wav"
        raise AudioError(path, EXPECTED, got) from error
    if not container.streams.audio:
        container.close()
        raise AudioError(path, EXPECTED, "a recording or film without sound")
    return container


def _stated_end(container: InputContainer, mp3: Mp3Length | None, timeline: Timeline) -> float:
    """Return the seconds at which the file says it ends, 0.0 where it does not say."""
    audio, name = container.streams.audio[0], container.format.name
    if name == "mp3":  # FFmpeg guesses from the bit rate where a tag makes the file longer
        return mp3.seconds(audio.rate) if mp3 and audio.rate else 0.0
    if name in GUESSED:
        return 0.0
    if audio.duration is not None and audio.time_base is not None:
        start = audio.start_time if timeline.is_timed and audio.start_time else 0
        return float((start + audio.duration) * audio.time_base)
    if container.duration is not None and len(container.streams) == 1:
        return container.duration / av.time_base
    return 0.0


def _padding(container: InputContainer, frame: float) -> float:
    """Return the seconds that a codec may add to a stated length, given those of a frame."""
    if container.format.name not in PADDED:
        return 0.0
    codec = container.streams.audio[0].codec_context.codec.canonical_name
    return frame * (4 if codec == "mp3" else 2)  # its decoder adds another frame at both ends


def _resampled(
    path: Path, pieces: Iterable[tuple[int, Samples]], size: Callable[[], float] = lambda: inf
) -> Generator[Samples, None, float]:
    """Yield pieces of (rate, samples) at 16 kHz, none for no rate; return the seconds they last.

    Raises: AudioError for none, and for more than an hour that is not in `size()` bytes.
    """
    resampler, rate, heard = None, 0, 0.0
    try:
        for new_rate, samples in pieces:
            if not new_rate:
                yield NOTHING
                continue
            # the first, or the next link of a chained ogg file
            if resampler is None or new_rate != rate:
                if resampler is not None:
                    yield resampler.finish()
                rate = new_rate
                resampler = _resampler(path, rate)
            yield resampler.push(samples)
            heard += len(samples) / rate
            if heard > HOUR and heard > (longest := HOUR + size() / LEAST_RATE):
                raise AudioError(path, f"at most {longest:.0f} s in {size():.0f} bytes", "more")
    except AudioError:
        if resampler is not None:
            yield resampler.finish()  # what came before the damage is good
        raise
    if resampler is None or heard * SAMPLE_RATE < 1:
        raise AudioError(path, "at least one sample", "none")
    yield resampler.finish()
    return heard


def _resampler(path: Path, rate: int) -> Resampler:
    try:
        return Resampler(rate)
    except ValueError as error:
        raise AudioError(path, f"{MIN_RATE} to {MAX_RATE} Hz", f"{rate} Hz") from error


def _sphere(path: Path, file: BinaryIO, channel: Channel | None) -> Iterator[tuple[int, Samples]]:
    try:
        sphere = open_sphere(file)
        with _container(path, sphere, "nistsphere") as container:
            for frame in filter(None, _frames(path, container)):
                yield frame.sample_rate, _mono(path, sphere.samples(_values(path, frame)), channel)
        sphere.check_end()
    except SphereError as error:
        raise AudioError(path, error.expected, error.got) from error


def _mono_frames(
    path: Path, container: InputContainer, channel: Channel | None, timeline: Timeline
) -> Iterator[tuple[int, Samples]]:
    for frame in _frames(path, container):
        if frame is None:
            yield 0, NOTHING
            continue
        rate = frame.sample_rate
        silence = timeline.add(frame)
        for start in range(0, silence, MAX_RATE):  # in pieces, for it may be long
            yield rate, np.zeros(min(silence - start, MAX_RATE), np.float32)
        yield rate, mono(path, frame, channel)


def _codec(path: Path, audio: AudioStream) -> AudioCodecContext:
    if audio.codec_context is None:  # such as PCM of 0 bits
        raise AudioError(path, "an audio codec that FFmpeg knows", "an unknown or impossible one")
    return audio.codec_context


def _frames(path: Path, container: InputContainer) -> Iterator[AudioFrame | None]:
    """Yield the frames that can be decoded, and now and then None where many packets cannot.

    Raises: AudioError at once where no more can be read; at the end for damage before it.
    """
    audio = container.streams.audio[0]
    _codec(path, audio).options = {"err_detect": "crccheck"}
    damage, lost = Damage(container), 0
    try:
        for packet in container.demux(audio):
            damage.follow(packet)
            try:
                frames = packet.decode()
            except av.FFmpegError:
                damage.skip(bytes(packet))
                lost += 1
                if lost == MOST_LOST:
                    raise
                if lost % SOME_LOST == 0:
                    yield None
                continue
            for frame in frames:
                if frame.samples:
                    lost = 0
                    yield frame
                    damage.hear(frame.samples / frame.sample_rate)
    except (av.FFmpegError, EOFError) as error:
        raise _corrupt(path, damage.heard) from error
    if damage.first is not None:
        raise _corrupt(path, damage.first)


def _corrupt(path: Path, heard: float) -> AudioError:
    return AudioError(path, "whole audio data", f"corrupt data after {heard:.2f} s")


def mono(path: Path, frame: AudioFrame, channel: Channel | None = None) -> Samples:
    """Return (n,) samples of a frame in [-1, 1]: of one `channel`, or the mean of all.

    Raises: AudioError, which says `path`.
    """
    return _mono(path, _values(path, frame), channel)


def _values(path: Path, frame: AudioFrame) -> NDArray[np.generic]:
    """Return the (channels, n) values of a frame, of any type."""
    if frame.format.is_planar and frame.layout.nb_channels >= MANY:
        [frame] = AudioResampler(format=frame.format.packed.name).resample(frame)
    try:
        values = frame.to_ndarray()  # (channels, n), or (1, n * channels) interleaved
    except ValueError as error:  # integers of 64 bits
        expected, got = "samples of 8 to 32 bits, or floats", f"{frame.format.name} ones"
        raise AudioError(path, expected, got) from error
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    return values


def _mono(path: Path, values: NDArray[np.generic], channel: Channel | None) -> Samples:
    """Return the (n,) mean of (channels, n) values, or one; integers are scaled to [-1, 1)."""
    if channel is not None:
        if len(values) != channel.of:
            raise AudioError(path, f"audio of {_channels(channel.of)}", _channels(len(values)))
        values = values[channel.number][None]
    scaled = values.astype(np.float32)
    if np.issubdtype(values.dtype, np.integer):
        middle = 128 if values.dtype == np.uint8 else 0
        scaled = (scaled - middle) / np.float32(2.0 ** (8 * values.dtype.itemsize - 1))
    if not (np.abs(scaled) <= LOUDEST).all():  # so written, NaN is caught too
        raise AudioError(path, "samples within full scale", "corrupt or infinite ones")
    return scaled[0] if len(scaled) == 1 else scaled.mean(axis=0, dtype=np.float32)


def _channels(count: int) -> str:
    return "1 channel" if count == 1 else f"{count} channels"
