"""Words as phones, as espeak-ng pronounces them, for a loss over phones.

English spelling says little about sound. A loss over phones, on a layer below the one that spells,
tells the encoder what to hear (Toshniwal et al. 2017; Krishna et al. 2018; Sanabria & Metze 2018).
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VOICE = "en-us"
CALL = 4000  # words that espeak-ng is given at once
TIMEOUT = 3600.0  # s for a call, which takes two on an idle core
MARKS = str.maketrans("", "", "ˈˌːˑ")  # of stress and length
PHONES = (  # noqa: SIM905 (a list of 42 strings would take 42 lines)
    "aɪ aʊ b d dʒ eɪ f h i j k l m n oʊ p s t tʃ u v w z æ ð ŋ ɑ ɔ ɔɪ ə ɚ ɛ ɜ ɡ ɪ ɹ ɾ ʃ ʊ ʌ ʒ θ"
).split()
# What espeak-ng writes as one and is several, and what hardly anybody tells apart.
FOLDED = {
    "iə": "i ə",
    "aɪə": "aɪ ə",
    "aɪɚ": "aɪ ɚ",
    "əl": "ə l",
    "n̩": "ə n",
    "ɑɹ": "ɑ ɹ",
    "ɔɹ": "ɔ ɹ",
    "oɹ": "ɔ ɹ",
    "ɛɹ": "ɛ ɹ",
    "ɪɹ": "ɪ ɹ",
    "ʊɹ": "ʊ ɹ",
    "o": "ɔ",
    "r": "ɹ",
    "x": "k",
    "ɐ": "ə",
    "ᵻ": "ɪ",
    "ʔ": "t",
}
SPOKEN = {"a": "ə"}  # alone it is read as the letter, which it is nearly never
_NUMBERS = {phone: number for number, phone in enumerate(PHONES)}


class PronunciationError(OSError):
    """espeak-ng is not there or has failed."""


@dataclass(frozen=True)
class Lexicon:
    """The phones of words, as places in `PHONES`."""

    words: Mapping[str, Sequence[int]]  # none for a word that has no pronunciation

    def encode(self, text: str) -> list[int]:
        """Return the phones of a text; none if one of its words has none."""
        each = [self.words.get(word, ()) for word in text.split()]
        return [phone for word in each for phone in word] if all(each) else []


def lexicon(
    texts: Iterable[str], path: Path, progress: Callable[[int, int], None] | None = None
) -> Lexicon:
    """Return the pronunciations of all words of the texts.

    Args:
        texts: words between spaces.
        path: a JSON file that keeps them; it grows by those that it lacks.
        progress: called with the words done and their total.

    Raises:
        PronunciationError: espeak-ng is missing, or has failed.
    """
    kept: dict[str, list[str]] = {}
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
    wanted = sorted({word for text in texts for word in text.split()})
    todo = [word for word in wanted if word not in kept]
    for start in range(0, len(todo), CALL):
        some = todo[start : start + CALL]
        kept |= zip(some, pronounced(some), strict=True)
        if progress:
            progress(start + len(some), len(todo))
    if todo:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(kept, ensure_ascii=False, sort_keys=True), encoding="utf-8")
        os.replace(partial, path)
    return Lexicon({word: [_NUMBERS[phone] for phone in kept[word]] for word in wanted})


def pronounced(words: Sequence[str]) -> list[list[str]]:
    """Return the phones of each word; none where espeak-ng has none, or one that is not English.

    Raises:
        PronunciationError: espeak-ng is missing, or has failed.
    """
    return [
        SPOKEN[word].split() if word in SPOKEN else _phones(line)
        for word, line in zip(words, _lines(words), strict=True)
    ]


def _lines(words: Sequence[str]) -> Iterator[str]:
    """Yield what espeak-ng writes for each word, which is a paragraph to it, and mostly one line.

    Where the lines are not as many as the words, halves are asked again, down to a single word.
    """
    if not words:
        return
    lines = _asked("".join(f"{word}\n\n" for word in words)).splitlines()
    if len(lines) == len(words):
        yield from lines
    elif len(words) == 1:
        yield " ".join(lines)
    else:
        middle = len(words) // 2
        yield from _lines(words[:middle])
        yield from _lines(words[middle:])


def _asked(text: str) -> str:
    command = ["espeak-ng", "-q", "--ipa", "--sep=_", "-b", "1", "-v", VOICE, "--stdin"]
    try:
        answer = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=TIMEOUT, check=True
        )
    except FileNotFoundError as error:
        raise PronunciationError(
            "expected the program espeak-ng, which gives the phones of words, got none: "
            "install the package espeak-ng"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise PronunciationError(f"expected phones from espeak-ng, got {error}") from error
    return answer.stdout.decode()


def _phones(line: str) -> list[str]:
    """Return the phones in a line of IPA; none if one is not among `PHONES`."""
    found: list[str] = []
    for phone in line.translate(MARKS).replace("_", " ").split():
        found += FOLDED.get(phone, phone).split()
    return found if all(phone in _NUMBERS for phone in found) else []
