"""Common Voice: tables of tab-separated values beside a folder `clips`."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from cortado.training.data.corpora.source import Corpus, Found, Problem, corpus, named, walk

NOT_SETS = (
    "invalidated",
    "other",
    "reported",
    "clip_durations",
    "validated_sentences",
    "unvalidated_sentences",
)
GROUPS = ("age", "gender", "accents", "accent", "locale", "up_votes", "down_votes")


def read(discs: Sequence[Path]) -> Corpus:
    """Return a part for each table of recordings: train, dev, test, validated.

    Raises: ValueError where there is none, or where one lacks its columns.
    """
    sets = {
        path: _rows(path)
        for path in walk(discs)
        if path.suffix.lower() == ".tsv" and not path.stem.lower().startswith(NOT_SETS)
    }
    expected = "Common Voice's train.tsv or others in the folders"
    return corpus(named(sets, (".tsv",)), expected)


def _rows(path: Path) -> Iterator[Found | Problem]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            missing = {"client_id", "path", "sentence"} - set(table.fieldnames or ())
            if missing:
                raise ValueError(f"{path}: expected a column '{min(missing)}', got none")
            for number, row in enumerate(table, 2):
                yield _found(row, path, f"{path}, line {number}")
    except (csv.Error, UnicodeError) as error:
        raise ValueError(f"{path}: expected a table of UTF-8 text, got another: {error}") from error


def _found(row: dict[str, str], path: Path, line: str) -> Found | Problem:
    """Return the utterance of a row."""
    if not row["client_id"] or not row["path"] or row["sentence"] is None:
        return Problem(line, "a line that is cut")
    audio = path.parent / "clips" / row["path"]
    if not audio.suffix:
        audio = audio.with_suffix(".mp3")  # as the first releases have it
    if not audio.exists():
        return Problem(str(audio), f"missing: {line} lists it")
    groups = {name: row[name] for name in GROUPS if row.get(name)}
    return Found(audio.stem, audio, row["client_id"], row["sentence"], fields=groups)
