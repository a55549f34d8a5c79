"""Manifests of a corpus from its discs: every recording is read, every problem is listed.

The same discs give the same bytes, whatever the number of processes.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cortado.model.audio.decode import stream
from cortado.model.audio.error import AudioError
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.progress import Progress, counted, unwatched
from cortado.model.whole_file import whole
from cortado.training.data.corpora import commonvoice, folder, jsonlines, kaldi, libri, timit, wsj
from cortado.training.data.corpora.english import english, unwritable
from cortado.training.data.corpora.source import Corpus, Found, Part, Problem, Published
from cortado.training.data.manifest import DAY, Utterance, as_row
from cortado.training.data.parallel import parallel_map
from cortado.training.data.recordings import SLACK

HOUR = 3600  # seconds
HOURS_TOLERANCE = 0.05  # published figures are rounded, some of them far
RECORDINGS_PER_PROCESS = 50  # at least; to start one takes as long as to read so many
CHUNK = 8  # recordings that a process takes at once
PROBLEMS = "problems.txt"

READERS: dict[str, Callable[[Sequence[Path]], Corpus]] = {
    "timit": timit.read,
    "wsj": wsj.read,
    "librispeech": libri.read_librispeech,
    "libritts": libri.read_libritts,
    "commonvoice": commonvoice.read,
    "kaldi": kaldi.read,
    "nemo": jsonlines.read_manifests,
    "lhotse": jsonlines.read_cuts,
    "transcripts": jsonlines.read_transcripts,
    "folder": folder.read,
}
OF_MANIFESTS = ("nemo", "lhotse", "transcripts")  # readers of files that manifests could overwrite
TEXTS = ("corpus", "english", "raw")


@dataclass(frozen=True)
class Prepared:
    """A manifest that was written, beside what is published of its set."""

    name: str
    manifest: Path
    utterances: int
    speakers: int
    hours: float
    published: Published | None

    def differences(self) -> list[str]:
        """Return how the set differs from the published one, in words; nothing if it does not."""
        if self.published is None:
            return []
        found = []
        missing = self.published.utterances - self.utterances
        if missing:
            kind = "missing" if missing > 0 else "too many"
            found.append(f"{abs(missing):,} of {self.published.utterances:,} utterances {kind}")
        if self.published.speakers not in (None, self.speakers):
            found.append(f"{self.speakers} speakers, published are {self.published.speakers}")
        hours = self.published.hours
        if hours is not None and abs(self.hours - hours) > HOURS_TOLERANCE * hours + 0.02:
            found.append(f"{self.hours:.2f} hours, published are {hours:g}")
        return found


def prepare(
    name: str,
    discs: Sequence[Path],
    out: Path,
    text: str = "corpus",
    workers: int = 1,
    progress: Progress = unwatched,
) -> tuple[list[Prepared], list[Problem]]:
    """Write a manifest for each set of a corpus into `out`; return them, and all that is wrong.

    What cannot be used is left out of the manifests and listed, in `out`/problems.txt too.

    Args:
        name: a key of READERS.
        discs: folders, or files for the readers of manifests.
        out: folder of the manifests; made if it is not there.
        text: "corpus" writes what its published models learn, "english" only letters, apostrophe
            and space, "raw" the transcript.
        workers: processes that read recordings, at most.
        progress: called with the recordings read.

    Raises:
        ValueError: another name or text, discs that hold no such corpus, or a manifest that would
            overwrite one that is read.
        OSError: a file of the corpus or of `out` cannot be opened, or a process died.
    """
    if name not in READERS:
        raise ValueError(f"expected a corpus of {', '.join(READERS)}, got {name!r}")
    if text not in TEXTS:
        raise ValueError(f"expected a text of {', '.join(TEXTS)}, got {text!r}")
    for disc in discs:
        if not disc.exists():
            raise ValueError(f"expected a folder, got {disc}, which does not exist")
    # Readers know files by the folders above them, which a disc given as `.` would not name.
    discs = [Path(os.path.abspath(disc)) for disc in discs]
    corpus = READERS[name](discs)
    read = {disc.resolve() for disc in discs if name in OF_MANIFESTS}
    for part in corpus.parts if read else ():
        written = (out / f"{part.name}.jsonl").resolve()
        if written.exists() and not {written, *written.parents}.isdisjoint(read):
            raise ValueError(f"expected another folder to write to, got {out}: {written} is read")
    own = corpus.normalise
    normalise: Callable[[str], str] = {
        "corpus": _writable if own is english else own,
        "english": lambda transcript: _writable(own(transcript)),
        "raw": lambda transcript: " ".join(transcript.split()),
    }[text]
    found = [one for part in corpus.parts for one in part.utterances]
    seconds = _seconds_of({one.audio for one in found}, workers, progress)
    problems = list(corpus.problems)
    out.mkdir(parents=True, exist_ok=True)
    prepared = [_write(part, out, seconds, normalise, problems) for part in corpus.parts]
    problems = sorted(set(problems))
    lines = (f"{problem.where}: {problem.what}" for problem in problems)
    _write_lines(out / PROBLEMS, lines)
    return prepared, problems


def kinds(problems: Iterable[Problem]) -> dict[str, int]:
    """Return how many problems there are of each kind (missing, doubled, unusable), most first."""
    names = (problem.what.partition(":")[0] for problem in problems)
    categories = (name if name in ("missing", "doubled") else "unusable" for name in names)
    return dict(Counter(categories).most_common())


def _seconds_of(
    paths: Iterable[Path], workers: int, progress: Progress
) -> dict[Path, float | AudioError]:
    """Return how long each recording is, or what is wrong with it."""
    todo = sorted(paths)
    processes = min(workers, len(todo) // RECORDINGS_PER_PROCESS)
    count = partial(progress, "recordings read")
    count(0, len(todo))
    measured = parallel_map(_seconds, todo, processes, CHUNK)
    return dict(counted(zip(todo, measured, strict=True), len(todo), count))


def _seconds(path: Path) -> float | AudioError:
    """Return a recording's length by decoding it, or what is wrong with it."""
    count = 0
    try:
        with closing(stream(path)) as pieces:
            for piece in pieces:
                count += len(piece)
                if count > DAY * SAMPLE_RATE:
                    return AudioError(path, "at most a day of audio", "more")
    except AudioError as error:
        return error
    return count / SAMPLE_RATE


def _write(
    part: Part,
    out: Path,
    seconds: dict[Path, float | AudioError],
    normalise: Callable[[str], str],
    problems: list[Problem],
) -> Prepared:
    """Write a part's manifest; add what is wrong with its utterances to `problems`."""
    utterances = []
    for one in part.utterances:
        try:
            utterances.append(_utterance(one, seconds[one.audio], normalise))
        except AudioError as error:
            problems.append(Problem(str(one.audio), str(error).removeprefix(f"{one.audio}: ")))
        except ValueError as error:
            problems.append(Problem(f"{part.name}: {one.id}", str(error)))
    path = out / f"{part.name}.jsonl"
    rows = (json.dumps(as_row(one), ensure_ascii=False) for one in utterances)
    _write_lines(path, rows)
    hours = sum(one.duration for one in utterances) / HOUR
    speakers = len({one.speaker for one in utterances})
    return Prepared(part.name, path, len(utterances), speakers, hours, part.published)


def _utterance(
    found: Found, length: float | AudioError, normalise: Callable[[str], str]
) -> Utterance:
    """Return what a manifest says of an utterance.

    Raises: AudioError, or ValueError for what no manifest can say.
    """
    if isinstance(length, AudioError):
        raise length
    start, duration = found.start, length if found.duration is None else found.duration
    end = (start or 0.0) + duration
    if not 0 < duration <= end <= min(length + SLACK, DAY):  # so written, NaN is caught too
        raise ValueError(f"expected a part within {length:.2f} s of audio, got {end:.2f} s")
    text = normalise(found.text)
    if not text:
        raise ValueError(f"expected words, got {found.text!r}")
    for segment in (*found.words, *found.phones):
        if not 0 <= segment.start <= segment.end <= DAY:
            raise ValueError(f"expected starts before ends, got {list(segment)}")
    if not found.id.strip() or not found.speaker.strip():
        raise ValueError("expected an id and a speaker, got none")
    raw = {"transcript": found.text} if found.text != text else {}
    audio = Path(os.path.abspath(found.audio))
    str(audio).encode()  # UnicodeEncodeError is a ValueError: a name that JSON cannot have
    fields = dict(found.fields) | raw
    return Utterance(
        found.id, audio, duration, found.speaker, text, start, found.words, found.phones, fields
    )


def _writable(transcript: str) -> str:
    """Return a transcript in English.

    Raises: ValueError where it has what the recogniser does not write.
    """
    text = english(transcript)
    if strangers := unwritable(text):
        got = ", ".join(map(repr, strangers))
        raise ValueError(f"expected text of letters, apostrophes and spaces, got {got}")
    return text


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file whole or not at all."""
    with (
        whole(path) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file,
    ):
        file.writelines(f"{line}\n" for line in lines)
