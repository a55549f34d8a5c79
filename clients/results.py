"""Where the results of many files go: found below folders, each beside no other, written whole."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple


class Input(NamedTuple):
    """A file that is to be read."""

    path: Path
    name: Path  # below the folder that it was found in


def inputs(given: Sequence[Path], suffixes: Collection[str]) -> list[Input]:
    """Return files, in order, and in a folder's place those below it with one of the suffixes.

    Raises: ValueError for a folder without such files, and for an address of the web.
    """
    found: list[Input] = []
    for path in given:
        if path.parts[:1] in (("http:",), ("https:",)):
            raise ValueError("expected a file, got a web address: fetch it first, with curl -LO")
        if path.is_dir():
            below = sorted(one for one in path.rglob("*") if one.suffix.lower() in suffixes)
            if not below:
                raise ValueError(f"expected audio files below {path}, got none")
            found += (Input(one, one.relative_to(path)) for one in below)
        else:
            found.append(Input(path, Path(path.name)))
    return found


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
    """Return whether a file's result is there, and no older than the file."""
    try:
        return place.stat().st_mtime >= source.stat().st_mtime
    except OSError:
        return False


def write_whole(place: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all, and the folders above it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f"{place.name}.part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, place)
