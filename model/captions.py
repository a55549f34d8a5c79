"""Words with times, made of characters, and captions, made of words, as SubRip or WebVTT.

The page's captions have the same rules and numbers (clients/web/captions.js).
"""

import html
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from cortado.model.emission import Character
from cortado.model.features.framing import STEP_SECONDS

LINE = 42  # characters in a line of a caption
LINES = 2
PAUSE = 1.0  # seconds between words at which a caption ends
LONGEST = 7.0  # seconds that a caption stands
SHORTEST = 1.0  # seconds, where there is room before the next


@dataclass(frozen=True)
class Alternative:
    """What a word may have been instead."""

    text: str
    confidence: float  # probability that it is right


@dataclass(frozen=True)
class Word:
    """A word: from the frame of its first character to the end of its last one's."""

    text: str
    start: float  # seconds
    end: float
    confidence: float = 1.0  # probability that it is right
    alternatives: tuple[Alternative, ...] = ()  # the likeliest first, where they are asked for


Shares = Mapping[int, Sequence[tuple[str, float]]]
NO_SHARES: Shares = {}
Placed = Sequence[tuple[int, Sequence[tuple[str, float]]]]  # the same, as they come


class Cue(NamedTuple):
    """A caption."""

    start: float  # seconds
    end: float
    lines: tuple[str, ...]


def words_of(
    characters: Iterable[Character], alternatives: Shares = NO_SHARES, first: int = 0
) -> tuple[Word, ...]:
    """Return the words of characters, which spaces part.

    Args:
        characters: the first of which has the place `first`.
        alternatives: of the words that end before a place, with their shares of the probability
            that the word is wrong.
        first: a place.
    """
    found: list[Word] = []
    for is_space, run in groupby(characters, key=lambda one: one.text.isspace()):
        spoken = list(run)
        first += len(spoken)
        if not is_space:
            before = found[-1].end if found else 0.0
            start = max(before, round(spoken[0].time - STEP_SECONDS, 3))
            text, least = "".join(one.text for one in spoken), min(one.confidence for one in spoken)
            others = tuple(
                Alternative(other, round((1 - least) * share, 4))
                for other, share in alternatives.get(first, ())
            )
            found.append(Word(text, start, spoken[-1].time, least, others))
    return tuple(found)


def cues(utterances: Iterable[Sequence[Word]]) -> list[Cue]:
    """Return the captions of utterances that follow one another; none overlaps the next."""
    captions = [caption for words in utterances for caption in _captions(words)]
    nexts = [*(caption[0].start for caption in captions[1:]), math.inf]
    return [
        Cue(caption[0].start, _end(caption, following), tuple(_lines(caption)))
        for caption, following in zip(captions, nexts, strict=False)
    ]


def _end(caption: list[Word], following: float) -> float:
    start = caption[0].start
    end = min(max(caption[-1].end, start + SHORTEST), start + LONGEST, following)
    return round(end, 3)


def _captions(words: Sequence[Word]) -> list[list[Word]]:
    """Part an utterance's words: at a pause, or where a caption is full."""
    rest = [piece for word in words for piece in _pieces(word)]
    found = []
    while rest:
        count = _fitting(rest)
        if count < len(rest) and _pause(rest, count) <= PAUSE:
            # It is full. A phrase more likely ends at the longest pause in its second half.
            count = max(range((count + 1) // 2, count + 1), key=lambda k: (_pause(rest, k), k))
        found.append(rest[:count])
        rest = rest[count:]
    return found


def _fitting(words: list[Word]) -> int:
    """Return how many of the first words fit in one caption."""
    for count in range(1, len(words)):
        is_long = words[count].end - words[0].start > LONGEST
        if _pause(words, count) > PAUSE or is_long or len(_lines(words[: count + 1])) > LINES:
            return count
    return len(words)


def _pause(words: list[Word], index: int) -> float:
    """Return the seconds between a word and the one before it."""
    return round(words[index].start - words[index - 1].end, 3)


def _pieces(word: Word) -> list[Word]:
    """Return a word, cut where it is longer than a line; its time is parted evenly."""
    length, duration = len(word.text), word.end - word.start
    if length <= LINE:
        return [word]
    cuts = [*range(0, length, LINE), length]
    times = [round(word.start + duration * cut / length, 3) for cut in cuts]
    return [
        Word(word.text[cuts[k] : cuts[k + 1]], times[k], times[k + 1], word.confidence)
        for k in range(len(cuts) - 1)
    ]


def _lines(words: list[Word]) -> list[str]:
    """Return words in lines, each as full as it goes."""
    text = " ".join(word.text for word in words)
    return textwrap.wrap(text, LINE, break_long_words=False, break_on_hyphens=False)


def srt(captions: Iterable[Cue]) -> str:
    """Return captions as SubRip."""
    return "\n".join(f"{n}\n{_block(one, ',')}" for n, one in enumerate(captions, 1))


def vtt(captions: Iterable[Cue]) -> str:
    """Return captions as WebVTT."""
    escaped = (
        one._replace(lines=tuple(html.escape(line, quote=False) for line in one.lines))
        for one in captions
    )
    return "WEBVTT\n\n" + "\n".join(_block(one, ".") for one in escaped)


def _block(cue: Cue, mark: str) -> str:
    times = f"{_timecode(cue.start, mark)} --> {_timecode(cue.end, mark)}"
    return "\n".join((times, *cue.lines, ""))


def _timecode(seconds: float, mark: str) -> str:
    """Return hours:minutes:seconds, with milliseconds after `mark`."""
    rest, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{mark}{milliseconds:03}"
