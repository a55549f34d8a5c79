"""A transcript, and the formats that it is written in."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from cortado.model import captions
from cortado.model.captions import Shares, Word, words_of
from cortado.model.emission import Character
from cortado.model.streaming.alternatives import Substitute
from cortado.model.streaming.update import Update


@dataclass(frozen=True)
class Transcript:
    """The transcript of a recording; `str` gives its text."""

    utterances: tuple[tuple[Character, ...], ...]
    duration: float  # seconds of sound
    # of words, by the number of characters up to their end
    alternatives: Shares = field(default_factory=dict)

    @property
    def characters(self) -> tuple[Character, ...]:
        """All characters, with the spaces between them."""
        return tuple(one for utterance in self.utterances for one in utterance)

    @property
    def text(self) -> str:
        """The characters, without the spaces around them."""
        return _text(self.characters).strip()

    @property
    def words(self) -> tuple[Word, ...]:
        """The words, each with its times."""
        return tuple(word for words in self.words_of_utterances for word in words)

    @property
    def words_of_utterances(self) -> tuple[tuple[Word, ...], ...]:
        """The words of each utterance."""
        lengths = accumulate(map(len, self.utterances), initial=0)
        pairs = zip(self.utterances, lengths, strict=False)
        return tuple(words_of(one, self.alternatives, first) for one, first in pairs)

    def srt(self) -> str:
        """Return captions as SubRip."""
        return captions.srt(captions.cues(map(words_of, self.utterances)))

    def vtt(self) -> str:
        """Return captions as WebVTT."""
        return captions.vtt(captions.cues(map(words_of, self.utterances)))

    def __str__(self) -> str:
        return self.text


class Gathering:
    """Gathers the updates of a stream into a transcript."""

    def __init__(self) -> None:
        self._ended: list[tuple[Character, ...]] = []
        self._open: list[Character] = []
        self._before = 0  # characters of the utterances that have ended
        self._alternatives: dict[int, tuple[Substitute, ...]] = {}
        self._position = 0.0

    def add(self, update: Update) -> None:
        """Add the result of a step."""
        self._position = update.position
        start = self._before + len(self._open)
        self._alternatives |= {start + one.end: one.alternatives for one in update.alternatives}
        self._open += update.characters
        if update.endpoint:
            self._ended.append(tuple(self._open))
            self._before += len(self._open)
            self._open = []

    def transcript(self) -> Transcript:
        """Return the transcript of the stream up to the last update."""
        rest = [tuple(self._open)] if self._open else []
        return Transcript((*self._ended, *rest), self._position, self._alternatives)


def _text(characters: tuple[Character, ...]) -> str:
    return "".join(one.text for one in characters)


def _txt(path: Path, transcript: Transcript) -> str:
    return transcript.text + "\n"


def _json_lines(path: Path, transcript: Transcript) -> str:
    """Return one line of JSON."""
    return _line(_content(path, transcript))


def _json(path: Path, transcript: Transcript) -> str:
    """Return one line of JSON, with the words."""
    return _line(_content(path, transcript) | {"words": [*map(_word, transcript.words)]})


def _word(word: Word) -> dict[str, Any]:
    """Return a word for JSON, with its alternatives if it has any."""
    others = [vars(one) for one in word.alternatives]
    plain = {name: value for name, value in vars(word).items() if name != "alternatives"}
    return plain | ({"alternatives": others} if others else {})


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"


def _content(path: Path, transcript: Transcript) -> dict[str, Any]:
    return {
        "file": str(path),
        "text": transcript.text,
        "duration": round(transcript.duration, 3),
        "characters": [{"text": one.text, "time": one.time} for one in transcript.characters],
        "utterances": [
            {"text": _text(one).strip(), "start": words[0].start, "end": words[-1].end}
            for one, words in zip(
                transcript.utterances, transcript.words_of_utterances, strict=True
            )
            if words
        ],
    }


def recording_name(path: Path) -> str:
    """Return what a ctm calls a recording: one word."""
    return "_".join(path.stem.split()) or "-"


def _ctm(path: Path, transcript: Transcript) -> str:
    """Return NIST's word times: recording, channel, start, duration, word."""
    name = recording_name(path)
    return "".join(
        f"{name} 1 {word.start:.2f} {word.end - word.start:.2f} {word.text}\n"
        for word in transcript.words
    )


FORMATS: dict[str, Callable[[Path, Transcript], str]] = {  # from a file's name and transcript
    "txt": _txt,
    "srt": lambda path, transcript: transcript.srt(),
    "vtt": lambda path, transcript: transcript.vtt(),
    "json": _json,
    "ctm": _ctm,
    "jsonl": _json_lines,  # of --json
}
