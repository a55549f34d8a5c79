"""JSON lines: manifests of NeMo and of Cortado, Lhotse's cuts, and transcripts of recordings."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cortado.training.data.corpora.folder import UNKNOWN_SPEAKER
from cortado.training.data.corpora.source import Corpus, Found, Problem, corpus, named, walk
from cortado.training.data.manifest import OURS, Segment

SURE = 0.7  # mean confidence of the words of a transcript that is believed
NEMO_FIELDS = ("audio_filepath", "duration", "text", "offset", "speaker", *OURS)

Rows = Callable[[Mapping[str, Any], Path], Iterator[Found]]


def read_manifests(discs: Sequence[Path]) -> Corpus:
    """Return a part for each file of NeMo's or Cortado's JSON lines.

    Raises: ValueError where there is none, or a file is none.
    """
    return _read(discs, (".json", ".jsonl"), _nemo, "a manifest of JSON lines")


def read_cuts(discs: Sequence[Path]) -> Corpus:
    """Return a part for each file of Lhotse's cuts (cuts.jsonl or .jsonl.gz).

    Raises: ValueError where there is none, or a file is none.
    """
    return _read(discs, (".jsonl", ".jsonl.gz"), _cut, "Lhotse's cuts (.jsonl or .jsonl.gz)")


def read_transcripts(discs: Sequence[Path]) -> Corpus:
    """Return a part for each file that `cortado transcribe --format json` wrote.

    It has the utterances of whose words the recogniser was sure: to learn from recordings that
    nobody has transcribed.

    Raises: ValueError where there is none, or a file is none.
    """
    return _read(discs, (".json", ".jsonl"), _believed, "transcripts (--format json)")


def _read(discs: Sequence[Path], suffixes: tuple[str, ...], rows: Rows, expected: str) -> Corpus:
    folders = [path for path in discs if not path.is_file()]
    files = [path for path in discs if path.is_file()]
    files += [path for path in walk(folders) if path.name.lower().endswith(suffixes)]
    sets = {path.absolute(): _utterances(path, rows) for path in files}
    return corpus(named(sets, suffixes), expected)


def _utterances(path: Path, rows: Rows) -> Iterator[Found | Problem]:
    for number, line in _lines(path):
        try:
            yield from rows(_object(line), path.absolute().parent)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"expected {error}, got none" if isinstance(error, KeyError) else str(error)
            yield Problem(f"{path}, line {number}", what)


def _object(line: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    raise ValueError(f"expected a JSON object, got {line.decode(errors='replace').strip()!r:.60}")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: expected a whole gzip file, got a broken one") from error


def _nemo(row: Mapping[str, Any], folder: Path) -> Iterator[Found]:
    """Yield the utterance of a line `audio_filepath, duration, text` (NeMo) or of ours."""
    audio = str(row["audio_filepath"] if "audio_filepath" in row else row["audio"])
    start = row.get("offset", row.get("start"))
    name = str(row.get("id") or Path(audio).with_suffix("").as_posix())
    if start is not None and "id" not in row:
        name = f"{name}-{float(start):.3f}"
    yield Found(
        id=name,
        audio=folder / audio,
        speaker=str(row.get("speaker") or UNKNOWN_SPEAKER),
        text=_string(row["text"]),
        start=None if start is None else float(start),
        duration=None if start is None else float(row["duration"]),
        words=_segments(row.get("words", ())),
        phones=_segments(row.get("phones", ())),
        fields={key: value for key, value in row.items() if key not in NEMO_FIELDS},
    )


def _believed(row: Mapping[str, Any], folder: Path) -> Iterator[Found]:
    """Yield the utterances of a transcript that are believed, with half the pauses around each."""
    audio, words = Path(row["file"]), row["words"]
    beside = folder / audio  # or from where `cortado transcribe` ran, as this command does
    place = audio.absolute() if audio.exists() and not beside.exists() else beside
    starts = [float(one["start"]) for one in row["utterances"]]
    ends = [float(one["end"]) for one in row["utterances"]]
    pauses = [(end + start) / 2 for end, start in zip(ends, starts[1:], strict=False)]
    borders = [0.0, *pauses, float(row["duration"])]
    for number, one in enumerate(row["utterances"]):
        start, end = borders[number : number + 2]
        said = [word["confidence"] for word in words if start <= word["start"] < end]
        if not (said and sum(said) >= SURE * len(said)):
            continue
        is_whole = len(starts) == 1
        yield Found(
            id=audio.with_suffix("").as_posix() + ("" if is_whole else f"-{start:.3f}"),
            audio=place,
            speaker=UNKNOWN_SPEAKER,
            text=_string(one["text"]),
            start=None if is_whole else start,
            duration=None if is_whole else end - start,
        )


def _cut(row: Mapping[str, Any], folder: Path) -> Iterator[Found]:
    """Yield the utterances of a cut: one for each of its supervisions."""
    if row.get("type", "MonoCut") != "MonoCut":
        raise ValueError(f"expected cuts of type MonoCut, got {row['type']!r}")
    sources = row["recording"]["sources"]
    if len(sources) != 1 or sources[0]["type"] != "file":
        raise ValueError("expected one source of type 'file', got others")
    if len(sources[0]["channels"]) != 1:
        raise ValueError(f"expected one channel, got {len(sources[0]['channels'])}")
    supervisions = row["supervisions"]
    for one in supervisions:
        start = float(row["start"]) + float(one["start"])
        duration = float(one["duration"])
        is_whole = start == 0 and duration >= float(row["recording"]["duration"]) - 0.005
        yield Found(
            id=str(row["id"] if len(supervisions) == 1 else one["id"]),
            audio=folder / str(sources[0]["source"]),
            speaker=str(one.get("speaker") or UNKNOWN_SPEAKER),
            text=_string(one.get("text", "")),
            start=None if is_whole else max(start, 0.0),
            duration=None if is_whole else duration,
            words=_alignment(one, "word"),
            phones=_alignment(one, "phone"),
            fields={"gender": one["gender"]} if one.get("gender") else {},
        )


def _alignment(supervision: Mapping[str, Any], kind: str) -> tuple[Segment, ...]:
    """Return Lhotse's items `[symbol, start, duration, ...]` with times from the utterance on."""
    items = (supervision.get("alignment") or {}).get(kind, ())
    before = float(supervision["start"])
    return tuple(
        Segment(str(symbol), max(float(start) - before, 0.0), float(start) - before + float(length))
        for symbol, start, length, *_ in items
    )


def _segments(items: Sequence[Any]) -> tuple[Segment, ...]:
    return tuple(Segment(str(label), float(start), float(end)) for label, start, end in items)


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {value!r}")
    return value
