"""When the frames of a file are to be heard: containers give their packets times, and leave out."""

import av
from av.audio.frame import AudioFrame
from av.container import InputContainer

# Formats whose packets have times of their own. The others count samples or bytes: there, whatever
# is missing is a fault.
TIMED = {"matroska", "webm", "mov", "mp4", "mpegts", "mpeg", "asf"}
LEAST_GAP = 0.1  # seconds; rounded times, priming and clocks that drift make less
LONGEST_GAP = 600.0  # seconds that are believed where the length of the whole is not known


class Timeline:
    """The place of each frame in time, and the silence where a recorder left packets out.

    A player shows the container's first time as 0, so a film's sound may begin later.
    """

    def __init__(self, container: InputContainer, is_whole: bool) -> None:
        """Follow a container that is here as a whole, or of which more may come.

        The latter states no length that can be relied on: that of a first fragment, say.
        """
        self.is_timed = not TIMED.isdisjoint(container.format.name.split(","))
        start, duration = container.start_time, container.duration if is_whole else None
        self._start = None if start is None else start / av.time_base
        self._duration = duration / av.time_base if duration else None
        self._position = 0.0  # seconds that were given, with the silence
        self.end = 0.0  # seconds: the last frame's, in the container's own time
        self.longest = 0.0  # seconds of the longest frame

    def add(self, frame: AudioFrame) -> int:
        """Return how many samples of silence come before a frame that is heard next."""
        length, silence = frame.samples / frame.sample_rate, 0
        if self.is_timed and frame.time is not None:
            silence = self._silence(frame.time, frame.sample_rate)
            self.end = max(self.end, frame.time + length)
        self._position += silence / frame.sample_rate + length
        self.longest = max(self.longest, length)
        return silence

    def _silence(self, time: float, rate: int) -> int:
        """Return the samples between what was given and a time; none if it is not to be believed.

        A broken time leads beyond the end, or so far ahead that it would be silence for hours.
        """
        if self._start is None:
            self._start = time
        time -= self._start
        latest = self._position + LONGEST_GAP if self._duration is None else self._duration
        if time > latest or time - self._position < LEAST_GAP:
            return 0
        return round((time - self._position) * rate)
