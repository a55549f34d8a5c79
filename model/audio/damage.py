"""What of a file could not be decoded, and whether sound is missing for it.

Decoders of other programs skip what they cannot decode. So do we, to hear the rest, but say so.
"""

from typing import Any

import av
from av.container import InputContainer

from cortado.model.audio.timeline import LEAST_GAP

# In bare frames, each of which begins with the bits of a sync word, writers leave tags and padding.
BARE = ("mp3", "aac")  # FFmpeg's names
SYNC = 0xFF
TAGS = (b"ID3", b"TAG", b"APETAGEX", b"LYRICSBEGIN")
HEADERS = 256  # bytes; Matroska has fewer between two packets, and loses thousands if it is damaged


class Damage:
    """The first damage to the sound of a container."""

    def __init__(self, container: InputContainer) -> None:
        name = container.format.name
        self._bare = name in BARE
        self._may_skip = name == "matroska,webm" and len(container.streams) == 1
        self._place, self._end, self._time = -1, 0, 0.0  # of the last packet: bytes, seconds
        self.heard = 0.0  # seconds of sound
        self._in_tag = False
        self._rubbish: float | None = None  # since the last frame
        self.first: float | None = None  # seconds of sound before it; None if there is none

    def follow(self, packet: "av.Packet[Any]") -> None:
        """Take a packet before it is decoded.

        FFmpeg skips damage in Matroska up to the next cluster and does not say so. A recorder that
        left packets out has left no bytes in their place.
        """
        if not self._may_skip or packet.pts is None or packet.pos is None:
            return
        time, length = packet.pts * packet.time_base, (packet.duration or 0) * packet.time_base
        skipped = packet.pos - self._end
        if self.heard and skipped > HEADERS and time > self._time + LEAST_GAP:
            self._note(self.heard)
        is_laced = packet.pos == self._place  # with others in one block
        self._end = (self._end if is_laced else packet.pos) + packet.size
        self._place, self._time = packet.pos, float(time + length)

    def _note(self, seconds: float | None) -> None:
        self.first = seconds if self.first is None else self.first

    def skip(self, data: bytes) -> None:
        """Take the data of a packet that could not be decoded.

        A tag is no sound, wherever it is. Other rubbish is none behind the last frame or before the
        first: between two, it may be what is left of some.
        """
        if self._bare and (self._in_tag or data.startswith(TAGS) or not any(data)):
            self._in_tag = True  # up to the next frame: a parser cuts a long one
        elif self._bare and data[0] != SYNC:
            self._rubbish = self.heard if self._rubbish is None else self._rubbish
        else:
            self._note(self.heard)

    def hear(self, seconds: float) -> None:
        """Take the length of a frame that was decoded."""
        if self.heard:
            self._note(self._rubbish)
        self.heard += seconds
        self._in_tag, self._rubbish = False, None
