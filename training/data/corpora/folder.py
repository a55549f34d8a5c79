"""A plain folder: recordings of any kind, each with its text beside it as `NAME.txt`."""

from collections.abc import Sequence
from pathlib import Path

from cortado.training.data.corpora.source import (
    AUDIO_SUFFIXES,
    Corpus,
    Found,
    Part,
    Problem,
    read_text,
    walk,
    without_doubles,
)

UNKNOWN_SPEAKER = "unknown"


def read(discs: Sequence[Path]) -> Corpus:
    """Return one part of all recordings; a recording in a folder of its own is spoken by that.

    Raises: ValueError where no recording has a text beside it.
    """
    problems: list[Problem] = []
    found = []
    for disc in discs:
        files = list(walk([disc]))
        texts = {_stem(path): path for path in files if path.suffix.lower() == ".txt"}
        for path in files:
            if path.suffix.lower() not in AUDIO_SUFFIXES:
                continue
            text = texts.get(_stem(path)) or texts.get(str(path).lower())
            if text is None:
                problems.append(Problem(str(path), "missing: its text, a .txt of the same name"))
                continue
            place = path.relative_to(disc)
            found.append(
                Found(
                    id=place.with_suffix("").as_posix(),
                    audio=path,
                    speaker=place.parts[0] if len(place.parts) > 1 else UNKNOWN_SPEAKER,
                    text=" ".join(read_text(text).split()),
                )
            )
    if not found:
        raise ValueError("expected recordings with a .txt beside each, got none")
    return Corpus([Part("all", without_doubles(found, problems, "all"))], problems)


def _stem(path: Path) -> str:
    return str(path.with_suffix("")).lower()
