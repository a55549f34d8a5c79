"""A plain folder: recordings of any kind, each with its text beside it as `NAME.txt`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from cortado.training.data.corpora.source import (
    AUDIO_SUFFIXES,
    Corpus,
    Found,
    Problem,
    corpus,
    read_text,
    walk,
)

UNKNOWN_SPEAKER = "unknown"
NOBODY = ("", UNKNOWN_SPEAKER)  # names that tell no speaker


def read(discs: Sequence[Path]) -> Corpus:
    """Return one part of all recordings; a recording in a folder of its own is spoken by that.

    Raises: ValueError where no recording has a text beside it.
    """
    found = (one for disc in discs for one in recordings(disc))
    return corpus({"all": found}, "recordings with a .txt beside each")


def recordings(disc: Path) -> Iterator[Found | Problem]:
    """Yield the recordings of a folder with their texts, and those without; file by file."""
    files = list(walk([disc]))
    texts = {_stem(path): path for path in files if path.suffix.lower() == ".txt"}
    for path in (path for path in files if path.suffix.lower() in AUDIO_SUFFIXES):
        text = texts.get(_stem(path)) or texts.get(str(path).lower())
        if text is None:
            yield Problem(str(path), "missing: its text, a .txt of the same name")
            continue
        place = path.relative_to(disc)
        speaker = place.parts[0] if len(place.parts) > 1 else UNKNOWN_SPEAKER
        said = " ".join(read_text(text).split())
        yield Found(place.with_suffix("").as_posix(), path, speaker, said)


def _stem(path: Path) -> str:
    return str(path.with_suffix("")).lower()
