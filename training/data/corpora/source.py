"""The result of reading a corpus: its parts, their utterances, and a list of problems."""

import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cortado.training.data.corpora.english import english
from cortado.training.data.manifest import Segment

_SUFFIXES = (
    "wav wv1 sph flac mp3 ogg oga opus spx m4a m4b mp4 m4v mov 3gp webm weba mkv mka aac aiff aif"
    " au caf w64 wma wmv asf avi ts mts m2ts mpg mpeg amr ac3 wv tta"
)
AUDIO_SUFFIXES = frozenset(f".{suffix}" for suffix in _SUFFIXES.split())

Read = TypeVar("Read")  # what a reader yields of a set


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


class Part(NamedTuple):
    """A set of a corpus that becomes a manifest."""

    name: str
    utterances: list[Found]
    published: Published | None = None


class Corpus(NamedTuple):
    """All that a reader found."""

    parts: list[Part]
    problems: list[Problem]  # sorted
    normalise: Callable[[str], str]  # its transcripts as the text that models learn


def walk(discs: Sequence[Path]) -> Iterator[Path]:
    """Yield every file below `discs`, in the order of their names; links are followed once.

    Raises: ValueError where a disc is no folder; OSError for a folder that cannot be listed.
    """
    seen = set()
    for disc in discs:
        if not disc.is_dir():
            raise ValueError(f"expected a folder, got {disc}")
        for folder, folders, files in os.walk(disc, onerror=_refuse, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:
                folders.clear()
                continue
            seen.add(real)
            folders.sort()
            yield from (Path(folder, name) for name in sorted(files))


def _refuse(error: OSError) -> None:
    """Let no folder that cannot be listed count as an empty one."""
    reason = f"{error.strerror}; name the folders beside it in its place"
    raise OSError(error.errno, reason, error.filename) from error


def corpus(
    sets: Mapping[str, Iterable[Found | Problem]],
    expected: str,
    others: Iterable[Problem] = (),
    published: Mapping[str, Published] | None = None,
    normalise: Callable[[str], str] = english,
) -> Corpus:
    """Return what was found and what is wrong; each part has an id once, by the order of ids.

    Args:
        sets: what a reader yields of each part, by the part's name.
        expected: what an error says where nothing was found.
        others: problems of none of the parts.
        published: what is published of some parts, which are there even where they are empty.
        normalise: transcripts as the text that models learn.

    Raises: ValueError where nothing was found.
    """
    parts, problems, published = [], list[Problem](), published or {}
    for name, read in sets.items():
        unique: dict[str, Found] = {}
        for one in read:
            if isinstance(one, Problem):
                problems.append(one)
            elif one.id in unique:
                what = f"doubled: {name} has {one.id} already, in {unique[one.id].audio}"
                problems.append(Problem(str(one.audio), what))
            else:
                unique[one.id] = one
        if unique or name in published:
            utterances = [unique[id] for id in sorted(unique)]
            parts.append(Part(name, utterances, published.get(name)))
    if not any(part.utterances for part in parts):
        first = f" ({problems[0].where}: {problems[0].what})" if problems else ""
        raise ValueError(f"expected {expected}, got none{first}")
    return Corpus(parts, sorted({*problems, *others}), normalise)


def named(sets: Mapping[Path, Read], suffixes: Sequence[str] = ()) -> dict[str, Read]:
    """Return sets by the names of their files or folders, and of those above where they must be.

    Raises: ValueError where two have the same names even so.
    """
    plain = {path: _without_suffix(path.name, suffixes) for path in sets}
    found: dict[str, Read] = {}
    for path, name in plain.items():
        name = f"{path.parent.name}-{name}" if list(plain.values()).count(name) > 1 else name
        if name in found:
            raise ValueError(f"expected sets of different names, got {name} twice, as {path}")
        found[name] = sets[path]
    return found


def _without_suffix(name: str, suffixes: Sequence[str]) -> str:
    for suffix in suffixes:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] or name
    return name


def read_text(path: Path) -> str:
    """Return a transcript: in UTF-8, in UTF-16 of some editors, or in Latin-1 of old discs."""
    data = path.read_bytes()
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
