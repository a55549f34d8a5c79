"""Compressed audio that comes in messages: bytes in, samples at 16 kHz out, as they come.

FFmpeg's demuxers ask for bytes when they want them, and cannot stop in between. So a stream's
demuxer has a thread of its own, which runs only while `push` waits for it: from the outside it is a
plain function of the bytes so far, one piece of samples at a time, in constant memory.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from math import inf
from pathlib import Path

import av
from av.audio.codeccontext import AudioCodecContext

from cortado.model.arrays import Samples
from cortado.model.audio.container import ID3_HEADER, LONGEST_HEADER, id3_length, wav_header
from cortado.model.audio.decode import streamed
from cortado.model.audio.error import AudioError
from cortado.model.audio.frames import Channel, mono
from cortado.model.audio.resampler import Resampler

ENOUGH = 12  # bytes that tell the format
AWAITED = 64  # bytes before decoding begins: FFmpeg loses an mp3's first frame if it waits for it
# How a stream of each format begins, and FFmpeg's name for it.
BEGINNINGS = (
    (0, b"OggS", "ogg"),
    (0, b"\x1aE\xdf\xa3", "webm"),
    (0, b"fLaC", "flac"),
    (0, b"RIFF", "wav"),
    (4, b"ftyp", "mp4"),
)
KNOWN = "wav, flac, ogg, webm, mp4, mp3 or aac audio"
MP4 = "mp4 audio in fragments, or with its index first"
MOST_SILENT = 2**23  # bytes before the first sound: pictures and tables, which FFmpeg keeps
OPUS_RATE = 48_000  # Hz, at which Opus decodes


class StreamedAudio:
    """The decoder of one stream in a container, or of MP3 or AAC frames."""

    def __init__(
        self, name: str, expected: str | None = None, channel: Channel | None = None
    ) -> None:
        """Decode the format `expected`, or whatever comes if None; errors say `name`.

        The samples are those of one `channel`, or the mean of all.
        """
        self._path, self._expected, self._channel = Path(name), expected, channel
        self._head = b""
        self._tag, self._is_tagged = 0, False  # bytes of an ID3 tag that are still to come
        self._left = inf  # bytes of a wav file's samples; what follows is no sound
        self._decoder: _Decoder | None = None

    def push(self, data: bytes) -> Iterator[Samples]:
        """Yield pieces of samples that are complete with `data`, lazily.

        Raises: AudioError where it is not the audio that was expected.
        """
        if self._decoder is None:
            self._head, data = b"", self._behind_tags(self._head + data)
            if len(data) < AWAITED or self._awaits_header(data):
                self._head = data
                return
            yield from self._begin(data)
        else:
            yield from self._push(self._decoder, data)

    def _behind_tags(self, data: bytes) -> bytes:
        """Return the data without the ID3 tags before it, of which none is kept: they may be large.

        MP3 and the segments of HLS begin with them, which may be AAC, too.
        """
        begin = min(self._tag, len(data))
        self._tag -= begin
        while not self._tag and (length := id3_length(data[begin : begin + ID3_HEADER])):
            self._is_tagged = True
            self._tag = max(begin + length - len(data), 0)
            begin += length
        return data[begin:]

    def _awaits_header(self, data: bytes) -> bool:
        wav = self._format(data) == "wav" and len(data) < LONGEST_HEADER
        return wav and wav_header(data) is None

    def _begin(self, data: bytes) -> Iterator[Samples]:
        """Decode a stream that begins with `data`."""
        kind, caf = self._format(data), None
        header = wav_header(data) if kind == "wav" else None
        if header and (caf := header.caf):
            kind, self._left, data = "caf", header.length, data[header.start :]
        self._decoder = _Decoder(self._path, kind, self._channel)
        yield from self._decoder.push(caf or b"")
        yield from self._push(self._decoder, data)

    def _push(self, decoder: _Decoder, data: bytes) -> Iterator[Samples]:
        if self._left < len(data):
            data = data[: int(self._left)]
        self._left -= len(data)
        yield from decoder.push(data)

    def end(self) -> Iterator[Samples]:
        """Yield the last pieces.

        Raises: AudioError where there was no audio.
        """
        if self._decoder is None and len(self._head) >= ENOUGH:  # within a header
            yield from self._begin(self._head)
        if self._decoder is not None:
            yield from self._decoder.end()
        elif self._is_tagged:
            raise AudioError(self._path, self._expected or KNOWN, "an ID3 tag alone")
        elif self._head:
            raise AudioError(self._path, self._expected or KNOWN, f"{len(self._head)} bytes")

    def close(self) -> None:
        """Give the thread back, wherever it is."""
        if self._decoder is not None:
            self._decoder.close()

    def _format(self, data: bytes) -> str:
        found = format_of(data) or ("mp3" if self._is_tagged else None)  # which may pad its tag
        if found is None or self._expected not in (None, found):
            got = f"{found} audio" if found else f"data that begins with {data[:4].hex(' ')}"
            raise AudioError(self._path, self._expected or KNOWN, got)
        return found


def format_of(data: bytes) -> str | None:
    """Return the format of a stream that begins with `data`; None if it is none that is known.

    It is that behind an ID3 tag, which may stand before several.
    """
    data = data[id3_length(data) :]
    for place, magic, name in BEGINNINGS:
        if data[place : place + len(magic)] == magic:
            return name
    if len(data) < 2:
        return None
    if data[0] == 0xFF and data[1] & 0xF6 == 0xF0:  # ISO 14496-3, an ADTS header: layer 0
        return "aac"
    if data[0] == 0xFF and data[1] & 0xE0 == 0xE0 and data[1] & 0x06:  # ISO 11172-3
        return "mp3"
    return None


class _Decoder:
    """A demuxer and a decoder in a thread that takes turns with its caller."""

    def __init__(self, path: Path, kind: str, channel: Channel | None) -> None:
        self._path, self._kind, self._channel = path, kind, channel
        self._bytes, self.received = bytearray(), 0
        self._piece: Samples | None = None
        self._error: AudioError | None = None
        self._ended, self._closed, self._done = False, False, False
        self._has_sound = False
        self._its_turn, self._our_turn = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name="decoder", daemon=True)
        self._thread.start()

    def push(self, data: bytes) -> Iterator[Samples]:
        """Yield the pieces that come before the thread wants more than `data`."""
        if not self._done:
            self._bytes += data
            self.received += len(data)
            if self.received > MOST_SILENT and not self._has_sound:
                expected = f"sound within the first {MOST_SILENT >> 20} MiB"
                raise AudioError(self._path, expected, "other data")
        while not self._done and (piece := self._turn()) is not None:
            yield piece
        if self._error is not None:
            raise self._error

    def end(self) -> Iterator[Samples]:
        """Yield the last pieces."""
        self._ended = True
        return self.push(b"")

    def close(self) -> None:
        """End the thread."""
        self._closed = self._ended = True
        self._its_turn.release()

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes to the thread, none at the end; wait until there are any."""
        while not self._bytes and not self._ended:
            self._give_back()
        data = bytes(self._bytes[:size])
        del self._bytes[:size]
        return data

    def _turn(self) -> Samples | None:
        """Let the thread run until it has a piece, wants bytes, or is done."""
        self._piece = None
        self._its_turn.release()
        self._our_turn.acquire()
        return self._piece

    def _give_back(self) -> None:
        self._our_turn.release()
        self._its_turn.acquire()

    def _run(self) -> None:
        self._its_turn.acquire()
        pieces: Generator[Samples, None, float] = streamed(
            self._path, self, self._kind, self._channel
        )
        try:
            for self._piece in pieces:
                if self._closed:
                    return
                self._has_sound |= len(self._piece) > 0
                self._give_back()
        except AudioError as error:  # a stream may end within a frame
            if self._kind == "mp4" and not self._has_sound:  # a file's index mostly comes last
                error = AudioError(self._path, MP4, error.facts[2])
            self._error = None if self._ended and self._has_sound else error
        except Exception as error:  # a fault that nobody foresaw is one of this stream, too
            self._error = AudioError(self._path, KNOWN, f"what cannot be decoded: {error}")
            self._error.__cause__ = error
        finally:
            self._piece, self._done = None, True
            self._our_turn.release()


class OpusPackets:
    """The decoder of one stream of bare Opus packets (RFC 6716), one a message."""

    def __init__(self, name: str, channel: Channel | None = None) -> None:
        """Decode one `channel` of at most two, or the mean of all; errors say `name`."""
        self._path, self._channel = Path(name), channel
        context = AudioCodecContext.create("opus", "r")
        assert isinstance(context, AudioCodecContext)
        self._context, self._resampler = context, Resampler(OPUS_RATE)
        context.sample_rate, context.layout = OPUS_RATE, "mono"
        if channel is not None and channel.of == 2:
            context.layout = "stereo"

    def push(self, data: bytes) -> Iterator[Samples]:
        """Yield the samples of a packet.

        Raises: AudioError where it is none.
        """
        try:
            frames = self._context.decode(av.Packet(data)) if data else []
        except av.FFmpegError as error:
            raise AudioError(self._path, "an Opus packet a message", "other data") from error
        for frame in frames:
            yield self._resampler.push(mono(self._path, frame, self._channel))

    def end(self) -> Iterator[Samples]:
        """Yield the last samples."""
        yield self._resampler.finish()

    def close(self) -> None:
        """Do nothing: there is no thread."""
