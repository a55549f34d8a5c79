"""The frames of a container, decoded, and their samples."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import InputContainer
from numpy.typing import NDArray

from cortado.model.arrays import LOUDEST, Samples
from cortado.model.audio.damage import Damage
from cortado.model.audio.error import AudioError

MOST_LOST = 10_000  # packets one behind the other that cannot be decoded, before it is given up
SOME_LOST = 32  # of them after which the caller has its turn: one takes up to 20 us
MANY = 8  # channels from which PyAV does not find the end of a frame's planes, and crashes


class Channel(NamedTuple):
    """One channel of audio that has several."""

    number: int  # from 0
    of: int


def codec(path: Path, audio: AudioStream) -> AudioCodecContext:
    """Return what decodes a stream of audio."""
    if audio.codec_context is None:  # such as PCM of 0 bits
        raise AudioError(path, "an audio codec that FFmpeg knows", "an unknown or impossible one")
    return audio.codec_context


def frames(path: Path, container: InputContainer) -> Iterator[AudioFrame | None]:
    """Yield the frames that can be decoded, and now and then None where many packets cannot.

    Raises: AudioError at once where no more can be read; at the end for damage before it.
    """
    audio = container.streams.audio[0]
    codec(path, audio).options = {"err_detect": "crccheck"}
    damage, lost = Damage(container), 0
    try:
        for packet in container.demux(audio):
            damage.follow(packet)
            try:
                found = packet.decode()
            except av.FFmpegError:
                damage.skip(bytes(packet))
                lost += 1
                if lost == MOST_LOST:
                    raise
                if lost % SOME_LOST == 0:
                    yield None
                continue
            for frame in found:
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
    return mixed(path, values_of(path, frame), channel)


def values_of(path: Path, frame: AudioFrame) -> NDArray[np.generic]:
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


def mixed(path: Path, values: NDArray[np.generic], channel: Channel | None) -> Samples:
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
