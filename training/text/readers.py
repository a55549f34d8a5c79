"""Pairs of texts in the files that the corpora come in.

    one file      JSON lines with `source` and `target`
    two files     a text a line, the sources and the targets: IWSLT'15 (train.en, train.vi), and
                  Gigaword as Rush et al. 2015 prepare it (train.article.txt, train.title.txt)
    one folder    CNN/DailyMail's stories (*.story), whose highlights are the target

Words are what stands between spaces. Stories come as they were published, and are split and
lower-cased here.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cortado.training.data.corpora.source import read_text

HIGHLIGHT = "@highlight"
ENDS = (".", "!", "?", '"', "'", "”", "’", ")")  # of a sentence
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


class Pair(NamedTuple):
    """A text and what is to be written of it, as words."""

    source: tuple[str, ...]
    target: tuple[str, ...]


def read(paths: tuple[Path, ...], most_source: int, most_target: int | None) -> list[Pair]:
    """Return the pairs of a set, texts cut at so many words; pairs with an empty text are left out.

    With None in place of a number, targets are whole.

    Raises:
        ValueError: neither a file, two files nor a folder of stories; files that do not match.
        OSError: a file cannot be read.
    """
    match paths:
        case (folder,) if folder.is_dir():
            pairs = _stories(folder)
        case (file,):
            pairs = _json_lines(file)
        case (sources, targets):
            pairs = _lines(sources, targets)
        case _:
            raise ValueError(
                "expected a file of JSON lines, two files of lines or a folder of stories, "
                f"got {len(paths)} paths"
            )
    cut = (Pair(one.source[:most_source], one.target[:most_target]) for one in pairs)
    found = [one for one in cut if one.source and one.target]
    if not found:
        raise ValueError(f"expected pairs of texts in {', '.join(map(str, paths))}, got none")
    return found


def _json_lines(path: Path) -> Iterator[Pair]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                one = json.loads(line)
                yield Pair(tuple(one["source"].split()), tuple(one["target"].split()))
            except (ValueError, KeyError, TypeError, AttributeError):
                wanted = "an object with the texts `source` and `target`"
                got = line.decode(errors="replace").strip()[:60]
                raise ValueError(f"{path}:{number}: expected {wanted}, got {got!r}") from None


def _lines(source: Path, target: Path) -> Iterator[Pair]:
    one, other = (read_text(path).split("\n") for path in (source, target))
    if len(one) != len(other):
        raise ValueError(
            f"expected as many lines in {target} as in {source}, {len(one)}, got {len(other)}"
        )
    for text, written in zip(one, other, strict=True):
        yield Pair(tuple(text.split()), tuple(written.split()))


def _stories(folder: Path) -> Iterator[Pair]:
    for path in sorted(folder.glob("*.story")):
        article, *highlights = read_text(path).split(HIGHLIGHT)
        if not highlights:
            raise ValueError(f"{path}: expected {HIGHLIGHT} in a story, got none")
        yield Pair(_words(article), tuple(word for one in highlights for word in _words(one)))


def _words(text: str) -> tuple[str, ...]:
    """Return lower-case words and marks; a line without an end, as highlights are, gets one."""
    lines = (line.strip() for line in text.lower().splitlines())
    ended = (line if line.endswith(ENDS) else f"{line} ." for line in lines if line)
    return tuple(WORD.findall(" ".join(ended)))
