"""Manifests: one JSON line per utterance, with its audio's path relative to the manifest."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from cortado.model.vocabulary import ENGLISH, Vocabulary

DAY = 86_400  # seconds
LONGEST_QUOTE = 60  # characters of a bad value that an error repeats
OURS = ("id", "audio", "duration", "speaker", "text", "start", "words", "phones")


class Segment(NamedTuple):
    """A word or a phone, and when it is said. In a manifest: `["she", 0.12, 0.34]`."""

    label: str
    start: float  # seconds after the utterance's beginning
    end: float


def _in_order(one: Segment) -> Segment:
    """Return a segment that starts before it ends; raise `ValueError` for another."""
    if not 0 <= one.start <= one.end <= DAY:
        raise ValueError
    return one


Name = Annotated[str, Field(pattern=r"\S")]
Timed = Annotated[Segment, AfterValidator(_in_order)]
_SEGMENTS = "lists of a label, a start and an end after it"
EXPECTED = {
    **dict.fromkeys(("id", "audio", "speaker"), "text that is not empty"),
    "text": "text",
    "duration": f"seconds above 0, at most {DAY}",
    "start": f"seconds from 0, at most {DAY}",
    **dict.fromkeys(("words", "phones"), _SEGMENTS),
}


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
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            utterance = _utterance(line, path.absolute().parent, where, characters)
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


class _Line(BaseModel):
    """The fields of a line that are ours; others are kept."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    id: Name
    audio: Name
    speaker: Name
    text: str
    duration: Annotated[float, Field(gt=0, le=DAY)]
    start: Annotated[float, Field(ge=0, le=DAY)] | None = None
    words: tuple[Timed, ...] = ()
    phones: tuple[Timed, ...] = ()


def _utterance(line: bytes, folder: Path, where: str, characters: str | None) -> Utterance:
    try:
        row = _Line.model_validate_json(line)
    except ValidationError as error:
        raise ValueError(f"{where}: {_explained(error, line)}") from None
    text = row.text.lower()
    unknown = [] if characters is None else sorted(set(text) - set(characters))
    if unknown:
        got = ", ".join(repr(character) for character in unknown)
        raise ValueError(
            f"{where}: field 'text': expected characters among {characters!r}, got {got} "
            f"in {_quote(text)}"
        )
    own = row.id, folder / row.audio, row.duration, row.speaker, text, row.start
    return Utterance(*own, row.words, row.phones, row.model_extra or {})


def _explained(error: ValidationError, line: bytes) -> str:
    """Return what is wrong first with a line."""
    first = error.errors(include_url=False)[0]
    if not first["loc"]:  # bad JSON, bad UTF-8, or no object
        return f"expected a JSON object, got {_quote(line.decode('utf-8', 'replace').strip())}"
    name = first["loc"][0]
    if first["type"] == "missing":
        return f"field '{name}': expected a value, got none"
    return f"field '{name}': expected {EXPECTED[str(name)]}, got {_quote(first['input'])}"


def _quote(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 4]} ..."
