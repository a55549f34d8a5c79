"""Common Voice: tables of tab-separated values beside a folder `clips`."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from cortado.training.data.corpora.source import Corpus, Found, Problem, named, walk

NOT_SETS = ("invalidated", "other", "reported", "clip_durations", "validated_sentences")
GROUPS = ("age", "gender", "accents", "accent", "locale", "up_votes", "down_votes")


def read(discs: Sequence[Path]) -> Corpus:
    """Return a part for each table of recordings: train, dev, test, validated.

    Raises: ValueError where there is none, or where one lacks its columns.
    """
    problems: list[Problem] = []
    sets = {
        path: _rows(path, problems)
        for path in walk(discs)
        if path.suffix.lower() == ".tsv" and not path.stem.lower().startswith(NOT_SETS)
    }
    if not any(sets.values()):
        raise ValueError("expected Common Voice's train.tsv or others in the folders, got none")
    return Corpus(named(sets, problems, (".tsv",)), problems)


def _rows(path: Path, problems: list[Problem]) -> list[Found]:
    try:
        return list(_found(path, problems))
    except (csv.Error, UnicodeError) as error:
        raise ValueError(f"{path}: expected a table of UTF-8 text, got another: {error}") from error


def _found(path: Path, problems: list[Problem]) -> Iterator[Found]:
    with path.open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        missing = {"client_id", "path", "sentence"} - set(table.fieldnames or ())
        if missing:
            raise ValueError(f"{path}: expected a column '{min(missing)}', got none")
        for number, row in enumerate(table, 2):
            if not row["client_id"] or not row["path"] or row["sentence"] is None:
                problems.append(Problem(f"{path}, line {number}", "a line that is cut"))
                continue
            audio = path.parent / "clips" / row["path"]
            if not audio.suffix:
                audio = audio.with_suffix(".mp3")  # as the first releases have it
            if not audio.exists():
                problems.append(Problem(str(audio), f"missing: {path}, line {number} lists it"))
                continue
            groups = {name: row[name] for name in GROUPS if row.get(name)}
            yield Found(audio.stem, audio, row["client_id"], row["sentence"], fields=groups)
