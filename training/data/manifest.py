"""Manifests: one JSON line per utterance, with its audio's path relative to the manifest."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from cortado.model.vocabulary import ENGLISH, Vocabulary

DAY = 86_400  # seconds
LONGEST_QUOTE = 60  # characters of a bad value that an error repeats
OURS = ("id", "audio", "duration", "speaker", "text", "start", "words", "phones")


class Segment(NamedTuple):
    """A word or a phone, and when it is said. In a manifest: `["she", 0.12, 0.34]`."""

    label: str
    start: float  # seconds after the utterance's beginning
    end: float


@dataclass(frozen=True)
class Utterance:
    """What a line of a manifest says."""

    id: str  # unique within the manifest
    audio: Path  # absolute
    duration: float  # seconds
    speaker: str
    text: str  # lower case
    start: float | None = None  # seconds into the recording; None where it is all of it
    words: tuple[Segment, ...] = ()
    phones: tuple[Segment, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False)  # what else is there


def read(path: Path, characters: str | None = ENGLISH) -> list[Utterance]:
    """Return the utterances of a manifest, in its order, their text in lower case.

    Text holds nothing but `characters`, a recogniser's, unless they are None. Fields that are not
    ours are kept as they are. That the audio exists is not looked at.

    Raises:
        ValueError: a line is no utterance (the message names file, line and field), an id comes
            twice, or there is no utterance at all.
        OSError: the file cannot be read.
    """
    lines: dict[str, int] = {}
    utterances = []
    for number, row in rows(path):
        where = f"{path}, line {number}"
        utterance = _utterance(row, path.absolute().parent, where, characters)
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


def read_for(path: Path, vocabulary: Vocabulary) -> list[Utterance]:
    """Return the utterances of a manifest, each with the text that a recogniser is to write.

    Raises:
        ValueError: as `read` does, or the vocabulary cannot spell what was said.
        OSError: the file cannot be read.
    """
    if not vocabulary.phones:
        return read(path, vocabulary.characters)
    utterances = [replace(one, text=spoken(one, vocabulary)) for one in read(path, None)]
    for one in utterances:
        try:
            vocabulary.encode(one.text)
        except ValueError as error:
            raise ValueError(f"{path}, utterance {one.id!r}: {error}") from error
    return utterances


def spoken(utterance: Utterance, vocabulary: Vocabulary) -> str:
    """Return what was said in a vocabulary's symbols: the text or, of phones, the phones.

    Raises: ValueError where phones are wanted and the utterance has none.
    """
    return phonetic(utterance) if vocabulary.phones else utterance.text


def phonetic(utterance: Utterance) -> str:
    """Return an utterance's phones with spaces between.

    Raises: ValueError where it has none.
    """
    if not utterance.phones:
        raise ValueError(f"expected phones in the manifest, got none for {utterance.id}")
    return " ".join(phone.label for phone in utterance.phones)


def as_row(utterance: Utterance) -> dict[str, Any]:
    """Return the object of an utterance's line; what is empty is left out."""
    row: dict[str, Any] = {
        "id": utterance.id,
        "audio": str(utterance.audio),
        "duration": round(utterance.duration, 6),
        "speaker": utterance.speaker,
        "text": utterance.text,
    }
    if utterance.start is not None:
        row["start"] = round(utterance.start, 6)
    for name in ("words", "phones"):
        if segments := getattr(utterance, name):
            row[name] = [[label, round(a, 6), round(b, 6)] for label, a, b in segments]
    return row | {name: value for name, value in utterance.fields.items() if name not in OURS}


def rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of each line of a file that is not blank.

    Raises: ValueError for a line that is no JSON object; OSError.
    """
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


def _utterance(row: dict[str, Any], folder: Path, where: str, characters: str | None) -> Utterance:
    for name in ("id", "audio", "speaker", "text", "duration"):
        if name not in row:
            raise ValueError(f"{where}: field '{name}': expected a value, got none")
    for name in ("id", "audio", "speaker", "text"):
        if not isinstance(row[name], str) or not (row[name].strip() or name == "text"):
            expected = "text" if name == "text" else "text that is not empty"
            raise ValueError(
                f"{where}: field '{name}': expected {expected}, got {_quote(row[name])}"
            )
    duration = _seconds(row, "duration", where)
    text = row["text"].lower()
    unknown = [] if characters is None else sorted(set(text) - set(characters))
    if unknown:
        got = ", ".join(repr(character) for character in unknown)
        raise ValueError(
            f"{where}: field 'text': expected characters among {characters!r}, got {got} "
            f"in {_quote(text)}"
        )
    return Utterance(
        row["id"],
        folder / row["audio"],
        duration,
        row["speaker"],
        text,
        None if row.get("start") is None else _seconds(row, "start", where, least=0.0),
        _segments(row, "words", where),
        _segments(row, "phones", where),
        {name: value for name, value in row.items() if name not in OURS},
    )


def _seconds(row: dict[str, Any], name: str, where: str, least: float = 1e-9) -> float:
    value = row[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= DAY:
        expected = f"seconds {'above' if least else 'from'} 0, at most {DAY}"
        raise ValueError(f"{where}: field '{name}': expected {expected}, got {_quote(value)}")
    return float(value)


def _segments(row: dict[str, Any], name: str, where: str) -> tuple[Segment, ...]:
    value = row.get(name, [])
    try:
        segments = [Segment(str(label), float(start), float(end)) for label, start, end in value]
    except (TypeError, ValueError) as error:
        message = f"expected lists of a label, a start and an end, got {_quote(value)}"
        raise ValueError(f"{where}: field '{name}': {message}") from error
    for one in segments:
        if not 0 <= one.start <= one.end <= DAY:
            raise ValueError(
                f"{where}: field '{name}': expected starts before ends, got {_quote(list(one))}"
            )
    return tuple(segments)


def _quote(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 4]} ..."
