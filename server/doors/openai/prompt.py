"""The phrases of a prompt: names and terms that a client says will be said."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from cortado.model.search.phrases import NODES, PLAIN
from cortado.model.streaming.options import MAX_PHRASE, MAX_PHRASES

MAX_WORDS = 4  # of a phrase in a list; a longer piece makes the prompt prose
MAX_PROMPT = 16_384  # characters, of keywords too
LETTERS = NODES - 1  # and spaces, of all phrases
PIECES = re.compile(r"[,;:\n]+")
SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
EDGES = " \t\r\"'“”‘’()[]<>.,;:!?"


class Expected(NamedTuple):
    """What a prompt says will be said."""

    phrases: tuple[str, ...]
    left_out: int = 0  # phrases for which there was no room

    @property
    def without_effect(self) -> str | None:
        """What of the prompt has no effect."""
        if self.left_out:
            return f"there is no room for {self.left_out} of its phrases"
        return None if self.phrases else "it has no effect: there are no names in it"


def expected(prompt: str, keywords: Sequence[str] = ()) -> Expected:
    """Return the phrases of a prompt and of keywords, as many as a stream takes.

    A prompt is a list if commas, semicolons, colons or lines divide it into pieces of up to four
    words; each is a phrase. Any other prompt is prose, of which the names are phrases: words with a
    capital or a digit that do not just begin a sentence. Its style has no effect.

    Raises: ValueError if they are too long to be searched while others speak.
    """
    if (length := len(prompt) + sum(map(len, keywords))) > MAX_PROMPT:
        at_most = f"at most {MAX_PROMPT} characters, those of keywords included"
        raise ValueError(f"prompt: expected {at_most}, got {length}")
    pieces = [piece for piece in PIECES.split(prompt) if piece.strip()]
    is_prose = any(len(piece.split()) > MAX_WORDS or _ends(piece) for piece in pieces)
    given = [*PIECES.split("\n".join(keywords)), *(_names(prompt) if is_prose else pieces)]
    found = list(dict.fromkeys(_trimmed(given)))
    kept, room = list[str](), LETTERS
    for phrase in found:
        if len(kept) == MAX_PHRASES or len(phrase) > MAX_PHRASE:  # to normalise a long one is slow
            continue
        if (letters := _letters(phrase)) <= room:
            kept.append(phrase)
            room -= letters
    return Expected(tuple(kept), len(found) - len(kept))


def _letters(phrase: str) -> int:
    """Return how many letters and spaces a phrase takes at most: `ß` takes two."""
    composed = unicodedata.normalize("NFC", phrase.lower())
    spelt = (PLAIN.get(one) or unicodedata.normalize("NFKD", one) for one in composed)
    return sum(not unicodedata.combining(one) for one in "".join(spelt))


def _ends(piece: str) -> bool:
    """Return whether a sentence ends in a piece; `B.R.I.C.K.` is a word."""
    return any("." not in word[:-1] for word in piece.split() if word[-1] in ".!?")


def _trimmed(pieces: Iterable[str]) -> Iterator[str]:
    """Yield pieces with a letter, without what stands around them."""
    for piece in pieces:
        text = " ".join(piece.split()).strip(EDGES)
        if re.search("[A-Za-z]", text):
            yield text


def _names(prose: str) -> Iterator[str]:
    """Yield the runs of words that are written as names."""
    for sentence in SENTENCES.split(prose):
        is_first, run = True, list[str]()
        for piece in PIECES.split(sentence):
            for word in [*piece.split(), ""]:  # the last ends a run
                if word and _is_name(word.strip(EDGES), is_first=is_first):
                    run.append(word)
                elif run:
                    yield " ".join(run)
                    run = []
                is_first = is_first and not word


def _is_name(word: str, *, is_first: bool) -> bool:
    """Return whether a word is written as a name; a sentence's first word has a capital anyway."""
    marks = word[1:] if is_first else word
    return re.match("I('|’|$)", word) is None and re.search(r"[A-Z0-9]", marks) is not None
