"""Manifests: one JSON line per utterance, with its audio's path relative to the manifest."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.vocabulary import ENGLISH

DAY = 86_400  # seconds
LONGEST_QUOTE = 60  # characters of a bad value that an error repeats


@dataclass(frozen=True)
class Utterance:
    """What a line of a manifest says."""

    id: str  # unique within the manifest
    audio: Path  # absolute
    duration: float  # seconds
    speaker: str
    text: str  # lower case


def read(path: Path, strict: bool = True) -> list[Utterance]:
    """Return the utterances of a manifest, in its order, their text in lower case.

    With `strict`, text holds nothing but the recogniser's characters. Fields that are not ours
    are passed over. That the audio exists is not looked at.

    Raises:
        ValueError: a line is no utterance (the message names file, line and field), an id comes
            twice, or there is no utterance at all.
        OSError: the file cannot be read.
    """
    lines: dict[str, int] = {}
    utterances = []
    for number, row in _rows(path):
        where = f"{path}, line {number}"
        utterance = _utterance(row, path.absolute().parent, where, strict)
        if utterance.id in lines:
            raise ValueError(
                f"{where}: field 'id': expected one of its own, "
                f"got {_quote(utterance.id)} as on line {lines[utterance.id]}"
            )
        lines[utterance.id] = number
        utterances.append(utterance)
    if not utterances:
        raise ValueError(f"{path}: expected at least one utterance, got an empty manifest")
    return utterances


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of each line that is not blank."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:  # bad JSON, or bad UTF-8
                got = _quote(line.decode("utf-8", "replace").strip())
                message = f"{path}, line {number}: expected a JSON object, got {got}"
                raise ValueError(message) from error
            if not isinstance(row, dict):
                raise ValueError(
                    f"{path}, line {number}: expected a JSON object, got {_quote(row)}"
                )
            yield number, row


def _utterance(row: dict[str, Any], folder: Path, where: str, strict: bool) -> Utterance:
    for name in ("id", "audio", "speaker", "text", "duration"):
        if name not in row:
            raise ValueError(f"{where}: field '{name}': expected a value, got none")
    for name in ("id", "audio", "speaker", "text"):
        if not isinstance(row[name], str) or not (row[name].strip() or name == "text"):
            expected = "text" if name == "text" else "text that is not empty"
            raise ValueError(
                f"{where}: field '{name}': expected {expected}, got {_quote(row[name])}"
            )
    duration = row["duration"]
    number = isinstance(duration, int | float) and not isinstance(duration, bool)
    if not number or not 0 < duration <= DAY:
        expected = f"seconds above 0, at most {DAY}"
        raise ValueError(f"{where}: field 'duration': expected {expected}, got {_quote(duration)}")
    text = row["text"].lower()
    unknown = sorted(set(text) - set(ENGLISH))
    if strict and unknown:
        got = ", ".join(repr(character) for character in unknown)
        raise ValueError(
            f"{where}: field 'text': expected characters among {ENGLISH!r}, got {got} "
            f"in {_quote(text)}"
        )
    return Utterance(row["id"], folder / row["audio"], float(duration), row["speaker"], text)


def _quote(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 4]} ..."
