"""Words as phones, as espeak-ng pronounces them, for aligners of phones."""

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cortado.model.config_reader import json_tree
from cortado.model.progress import Count, unwatched
from cortado.model.whole_file import write_whole

VOICE = "en-us"
WORDS_PER_CALL = 4000  # of espeak-ng
TIMEOUT = 3600.0  # s for a call, which takes two on an idle core
MARKS = str.maketrans("", "", "ˈˌːˑ")  # of stress and length
PHONES = (  # noqa: SIM905 (a list of 42 strings would take 42 lines)
    "aɪ aʊ b d dʒ eɪ f h i j k l m n oʊ p s t tʃ u v w z æ ð ŋ ɑ ɔ ɔɪ ə ɚ ɛ ɜ ɡ ɪ ɹ ɾ ʃ ʊ ʌ ʒ θ"
).split()
# Symbols of espeak-ng that are several phones, or that are hardly distinct from another one.
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
EXCEPTIONS = {"a": "ə"}  # espeak-ng reads it as the name of the letter
Lexicon = Mapping[str, Sequence[int]]  # places in PHONES; none of a word that nobody can pronounce
_NUMBERS = {phone: number for number, phone in enumerate(PHONES)}


class PronunciationError(OSError):
    """espeak-ng is not there or has failed."""


def lexicon(texts: Iterable[str], path: Path | None = None, progress: Count = unwatched) -> Lexicon:
    """Return the pronunciations of all words of the texts.

    Args:
        texts: words between spaces.
        path: a JSON file that stores them, to which the words that it lacks are added; or none.
        progress: called with the words done and their total.

    Raises:
        ValueError: the file is no JSON.
        PronunciationError: espeak-ng is missing, or has failed.
    """
    stored: dict[str, list[str]] = {}
    if path and path.exists():
        stored = json_tree(path)
    words = sorted({word for text in texts for word in text.split()})
    todo = [word for word in words if word not in stored]
    for start in range(0, len(todo), WORDS_PER_CALL):
        some = todo[start : start + WORDS_PER_CALL]
        stored |= zip(some, pronounced(some), strict=True)
        progress(start + len(some), len(todo))
    if path and todo:
        write_whole(path, json.dumps(stored, ensure_ascii=False, sort_keys=True))
    return {word: [_NUMBERS[phone] for phone in stored[word]] for word in words}


def pronounced(words: Sequence[str]) -> list[list[str]]:
    """Return the phones of each word; none where espeak-ng has none, or one that is not English.

    Raises:
        PronunciationError: espeak-ng is missing, or has failed.
    """
    return [
        EXCEPTIONS[word].split() if word in EXCEPTIONS else _phones(line)
        for word, line in zip(words, _lines(words), strict=True)
    ]


def _lines(words: Sequence[str]) -> Iterator[str]:
    """Yield espeak-ng's output for each word. Each word is a paragraph, which gives one line.

    If there are more or fewer lines than words, both halves of the words are run again.
    """
    if not words:
        return
    lines = _run_espeak("".join(f"{word}\n\n" for word in words)).splitlines()
    if len(lines) == len(words):
        yield from lines
    elif len(words) == 1:
        yield " ".join(lines)
    else:
        middle = len(words) // 2
        yield from _lines(words[:middle])
        yield from _lines(words[middle:])


def _run_espeak(text: str) -> str:
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
