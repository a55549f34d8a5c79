"""Where the results of many files go: found below folders, each beside no other."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from os.path import samefile
from pathlib import Path
from typing import NamedTuple

from cortado.model.audio.remote import (
    at,
    changed,
    files_below,
    is_address,
    is_folder,
    is_remote,
    name_of,
    text_of,
)

LISTS = (".jsonl", ".txt")
LONGEST_QUOTE = 60  # characters of a bad line that an error repeats


class Input(NamedTuple):
    """A file that is to be read."""

    path: Path
    name: Path  # below the folder that it was found in


def inputs(given: Sequence[str], suffixes: Collection[str]) -> list[Input]:
    """Return files, in order, and in a folder's place those below it with one of the suffixes.

    In place of a manifest (.jsonl) or a list (.txt) stand the files that it names, each once. Each
    of them may be an address, such as s3://bucket/folder.

    Raises:
        ValueError: a folder or a list has no files, or an address is of no kind that is known.
        OSError: a list cannot be read, or a store does not answer.
        ModuleNotFoundError: the extra that reads addresses is not installed.
    """
    found: list[Input] = []
    for name in given:
        path = at(name)
        named = name_of(path) if is_remote(path) else path
        if is_folder(path):
            one_folder = _of_store(path) if is_remote(path) else _of_folder(path)
            below = [one for one in one_folder if one.name.suffix.lower() in suffixes]
            if not below:
                raise ValueError(f"expected audio files below {path}, got none")
            found += below
        elif named.suffix.lower() in LISTS:
            found += _listed(path)
        else:
            found.append(Input(path, Path(named.name)))
    return found


def _of_folder(folder: Path) -> list[Input]:
    return [Input(one, one.relative_to(folder)) for one in sorted(folder.rglob("*"))]


def _of_store(folder: Path) -> list[Input]:
    above = name_of(folder)
    return [Input(one, name_of(one).relative_to(above)) for one in files_below(folder)]


def _listed(path: Path) -> list[Input]:
    """Return the files that a manifest or a list names, each once; their paths begin beside it.

    Raises: ValueError for a line that names none, and for a list without any.
    """
    found: dict[Path, Input] = {}
    is_plain = (name_of(path) if is_remote(path) else path).suffix.lower() == ".txt"
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if not line.strip():
            continue
        name = line.strip() if is_plain else _audio_of(line)
        if not name:
            got = line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}…"
            raise ValueError(f'{path}, line {number}: expected {{"audio": "FILE"}}, got {got}')
        one = _beside(path, name)
        found[one.path] = one
    if not found:
        raise ValueError(f"expected files in {path}, got none")
    return list(found.values())


def _beside(listing: Path, name: str) -> Input:
    """Return the file that a line of a list names."""
    if is_address(name):
        path = at(name)
        return Input(path, name_of(path) if is_remote(path) else Path(path.name))
    below = Path(name)
    is_below = not below.is_absolute() and ".." not in below.parts
    return Input(listing.parent / name, below if is_below else Path(below.name))


def _audio_of(line: str) -> str | None:
    """Return the file that a line of a manifest names, if it does."""
    try:
        name = json.loads(line)["audio"]
    except (ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None


def places(found: Sequence[Input], folder: Path, suffix: str) -> list[Path]:
    """Return the result of each file: a/b.wav gives a/b.txt, or a/b.wav.txt beside an a/b.mp3.

    Raises: ValueError where two files would have the same.
    """
    short = [folder / f"{one.name.with_suffix('')}.{suffix}" for one in found]
    taken = Counter(short)
    chosen = [
        place if taken[place] == 1 else folder / f"{one.name}.{suffix}"
        for one, place in zip(found, short, strict=True)
    ]
    for place, count in Counter(chosen).items():
        if count > 1:
            raise ValueError(f"expected one file for {place}, got {count}")
    return chosen


def is_done(source: Path, place: Path) -> bool:
    """Return whether a file's result is there, and no older than the file.

    Beside the file its age does not matter: it may be a transcript that somebody wrote.
    """
    try:
        if not is_remote(source) and samefile(source.parent, place.parent):
            return place.exists()
        return place.stat().st_mtime >= changed(source)
    except OSError:
        return False
