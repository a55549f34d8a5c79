"""Audio files of any kind as 16 kHz mono samples, in a stream of constant memory or whole."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from math import inf
from pathlib import Path
from typing import BinaryIO, Protocol

import av
import numpy as np
from av.container import InputContainer

from cortado.model.arrays import Samples
from cortado.model.audio.container import Mp3Length, missing_bytes, mp3_length
from cortado.model.audio.error import AudioError as AudioError  # docs/python.md names it here
from cortado.model.audio.frames import Channel, codec, frames, mixed, mono, values_of
from cortado.model.audio.opening import AT_ONCE, Readable, open_audio, open_container, unreadable
from cortado.model.audio.resampler import MAX_RATE, MIN_RATE, NOTHING, Resampler
from cortado.model.audio.sphere import SphereError, is_sphere, open_sphere
from cortado.model.audio.timeline import Timeline
from cortado.model.features.framing import SAMPLE_RATE

HOUR = 3600  # seconds
DECODE_LIMIT = 4 * HOUR  # seconds that `decode` holds in memory: 0.9 GB
DURATION_TOLERANCE = 0.05  # seconds; codecs prime and round, less than a block of flac
PADDED = ("matroska,webm", "caf")  # formats that state the codec's first and last padding, too
GUESSED = ("aac", "ac3", "amr", "mpegts", "mpeg")  # formats that state no duration: FFmpeg guesses
INDEX_FIRST = "a file, or mp4 audio with its index first"  # for which players seek
LEAST_RATE = 16  # bytes a second beyond the first hour: speech takes 80, packed silence can take 2


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
        raise unreadable(path, error) from error


def _channels_of(path: Path, file: BinaryIO) -> int:
    if is_sphere(file):
        try:
            count = open_sphere(file).header.channels
        except SphereError as error:
            raise AudioError(path, error.expected, error.got) from error
    else:
        with open_container(path, file) as container:
            count = codec(path, container.streams.audio[0]).layout.nb_channels
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
        raise unreadable(path, error) from error


def _decoded(path: Path, file: BinaryIO, channel: Channel | None) -> Generator[Samples, None, None]:
    seekable = file.seekable()
    if seekable and is_sphere(file):
        yield from _resampled(path, _sphere(path, file, channel))
        return
    missing = missing_bytes(file) if seekable else 0
    length = mp3_length(file) if seekable else None
    with open_container(path, file) as container:
        timeline = Timeline(container, seekable)
        end = _stated_end(container, length, timeline)
        size = os.fstat(file.fileno()).st_size if seekable else inf
        pieces = _mono_pieces(path, container, channel, timeline)
        try:
            heard = yield from _resampled(path, pieces, lambda: size)
        except AudioError as error:
            if seekable or timeline.longest or "mp4" not in container.format.name:
                raise
            raise AudioError(path, INDEX_FIRST, error.facts[2]) from error
        tolerance = max(DURATION_TOLERANCE, _padding(container, timeline.longest))
    if missing:
        raise AudioError(path, "a whole file", f"one cut {missing} bytes short")
    if (reached := max(heard, timeline.end)) < end - tolerance:
        raise AudioError(path, f"the {end:.2f} s that it announces", f"{reached:.2f} s")


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
    with open_container(path, file, kind, AT_ONCE) as container:
        pieces = _mono_pieces(path, container, channel, Timeline(container, False))
        return (yield from _resampled(path, pieces, lambda: file.received))


def _stated_end(container: InputContainer, mp3: Mp3Length | None, timeline: Timeline) -> float:
    """Return the seconds at which the file says it ends, 0.0 where it does not say."""
    audio, name = container.streams.audio[0], container.format.name
    if name == "mp3":  # FFmpeg guesses from the bit rate where a tag makes the file longer
        return mp3.seconds(audio.rate) if mp3 and audio.rate else 0.0
    if name in GUESSED:
        return 0.0
    if name == "caf" and audio.frames and audio.time_base:  # FFmpeg's duration is the file's length
        return float(audio.frames * audio.time_base)
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
    name = container.streams.audio[0].codec_context.codec.canonical_name
    return frame * (4 if name == "mp3" else 2)  # its decoder adds another frame at both ends


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
        with open_container(path, sphere, "nistsphere") as container:
            for frame in filter(None, frames(path, container)):
                values = sphere.samples(values_of(path, frame))
                yield frame.sample_rate, mixed(path, values, channel)
        sphere.check_end()
    except SphereError as error:
        raise AudioError(path, error.expected, error.got) from error


def _mono_pieces(
    path: Path, container: InputContainer, channel: Channel | None, timeline: Timeline
) -> Iterator[tuple[int, Samples]]:
    """Yield the rate and the samples of each frame, and the silence before it."""
    for frame in frames(path, container):
        if frame is None:
            yield 0, NOTHING
            continue
        rate = frame.sample_rate
        silence = timeline.add(frame)
        for start in range(0, silence, MAX_RATE):  # in pieces, for it may be long
            yield rate, np.zeros(min(silence - start, MAX_RATE), np.float32)
        yield rate, mono(path, frame, channel)
