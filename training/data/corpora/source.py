"""The result of reading a corpus: its parts, their utterances, and a list of problems."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cortado.training.data.corpora.english import english
from cortado.training.data.manifest import Segment

_SUFFIXES = "wav wv1 sph flac mp3 ogg oga opus m4a mp4 webm aac aiff aif au caf w64"
AUDIO_SUFFIXES = frozenset(f".{suffix}" for suffix in _SUFFIXES.split())


@dataclass(frozen=True)
class Found:
    """An utterance as its corpus describes it, before its audio is read."""

    id: str
    audio: Path
    speaker: str
    text: str  # as transcribed
    start: float | None = None  # seconds into the recording; None where it is all of it
    duration: float | None = None  # seconds; None where it is that of the audio
    words: tuple[Segment, ...] = ()
    phones: tuple[Segment, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)  # for grouping in reports


class Problem(NamedTuple):
    """What is wrong with a file, or with the corpus."""

    where: str
    what: str


@dataclass(frozen=True)
class Published:
    """What is published of a part; None where nothing is."""

    utterances: int
    hours: float | None = None
    speakers: int | None = None


@dataclass
class Part:
    """A set of a corpus that becomes a manifest."""

    name: str
    utterances: list[Found]
    published: Published | None = None


@dataclass
class Corpus:
    """All that a reader found."""

    parts: list[Part]
    problems: list[Problem] = field(default_factory=list)
    normalise: Callable[[str], str] = english  # its transcripts as the text that models learn


def walk(discs: Sequence[Path]) -> Iterator[Path]:
    """Yield every file below `discs`, in the order of their names; links are followed once.

    Raises: ValueError where a disc is no folder.
    """
    seen = set()
    for disc in discs:
        if not disc.is_dir():
            raise ValueError(f"expected a folder, got {disc}")
        for folder, folders, files in os.walk(disc, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:
                folders.clear()
                continue
            seen.add(real)
            folders.sort()
            yield from (Path(folder, name) for name in sorted(files))


def without_doubles(utterances: Iterable[Found], problems: list[Problem], part: str) -> list[Found]:
    """Return utterances with each id once, sorted; the others are added to `problems`."""
    unique: dict[str, Found] = {}
    for one in utterances:
        if one.id in unique:
            what = f"doubled: {part} has {one.id} already, in {unique[one.id].audio}"
            problems.append(Problem(str(one.audio), what))
        else:
            unique[one.id] = one
    return [unique[name] for name in sorted(unique)]


def named(
    sets: Mapping[Path, list[Found]], problems: list[Problem], suffixes: Sequence[str] = ()
) -> list[Part]:
    """Return a part for each file or folder, named after it, and after its folder where it must be.

    Raises: ValueError where two have the same names even so.
    """
    plain = {path: _without_suffix(path.name, suffixes) for path in sets}
    names = {
        path: f"{path.parent.name}-{name}" if list(plain.values()).count(name) > 1 else name
        for path, name in plain.items()
    }
    for path, name in names.items():
        if list(names.values()).count(name) > 1:
            raise ValueError(f"expected sets of different names, got {name} twice, as {path}")
    return [
        Part(names[path], without_doubles(found, problems, names[path]))
        for path, found in sets.items()
        if found
    ]


def _without_suffix(name: str, suffixes: Sequence[str]) -> str:
    for suffix in suffixes:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] or name
    return name


def read_text(path: Path) -> str:
    """Return a transcript's text; old discs have Latin-1 where it is not UTF-8."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
