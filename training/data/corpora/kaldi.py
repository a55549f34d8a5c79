"""Kaldi's data directories: wav.scp, text, utt2spk and segments.

Commands in a wav.scp are never run: of `sph2pipe -f wav FILE |` and `flac -c -d -s FILE |` the file
is read here, other commands are listed as problems.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cortado.training.data.corpora.source import (
    Corpus,
    Found,
    Problem,
    corpus,
    named,
    read_text,
    walk,
)

DECODERS = ("sph2pipe", "flac")
HARMLESS = ("-f", "-p", "-c", "-d", "-s", "wav", "-dcs", "-cds", "--decode", "--stdout", "--silent")


def read(discs: Sequence[Path]) -> Corpus:
    """Return a part for each data directory below `discs`, named after it.

    Raises: ValueError where there is none.
    """
    sets = {
        path.parent: _utterances(path.parent)
        for path in walk(discs)
        if path.name == "wav.scp" and (path.parent / "text").exists()
    }
    return corpus(named(sets), "Kaldi's wav.scp and text in the folders given")


def _utterances(folder: Path) -> Iterator[Found | Problem]:
    audio, problems = {}, list[Problem]()
    for name, entry in _table(folder / "wav.scp", problems).items():
        try:
            audio[name] = _audio(entry)
        except ValueError as error:
            problems.append(Problem(f"{folder / 'wav.scp'}: {name}", str(error)))
    speakers = _table(folder / "utt2spk", problems)
    has_segments = (folder / "segments").exists()
    segments = _table(folder / "segments", problems)
    texts = _table(folder / "text", problems)
    for name in sorted((segments if has_segments else audio).keys() - texts.keys()):
        problems.append(Problem(f"{folder / 'text'}: {name}", "missing: its text"))
    for name, text in texts.items():
        recording, start, duration = name, None, None
        try:
            if has_segments:
                recording, start, duration = _segment(segments.get(name))
            if recording not in audio:
                raise ValueError(f"missing: recording {recording} in wav.scp")
        except ValueError as error:
            yield Problem(f"{folder / 'text'}: {name}", str(error))
            continue
        speaker = speakers.get(name) or name
        yield Found(name, audio[recording], speaker, text, start, duration)
    yield from problems


def _table(path: Path, problems: list[Problem]) -> Mapping[str, str]:
    """Return the lines `key value` of a file, none where it does not exist."""
    table: dict[str, str] = {}
    for line in read_text(path).splitlines() if path.exists() else ():
        key, *rest = line.split(None, 1) or [""]
        if key in table:
            problems.append(Problem(f"{path}: {key}", "doubled: another line has it"))
        elif key:
            table[key] = rest[0].strip() if rest else ""
    return table


def _audio(entry: str) -> Path:
    """Return the file that an entry of a wav.scp stands for.

    Raises: ValueError for a command that is not known only to decode a file.
    """
    if not entry.endswith("|"):
        return Path(entry).absolute()
    words = shlex.split(entry.removesuffix("|"))
    names = [word for word in words[1:] if word not in HARMLESS]
    if not words or Path(words[0]).name not in DECODERS or len(names) != 1:
        raise ValueError(f"expected a file, or sph2pipe or flac with one, got {entry[:80]!r}")
    return Path(names[0]).absolute()


def _segment(line: str | None) -> tuple[str, float, float]:
    """Return the recording, start and duration that a line of segments tells."""
    parts = (line or "").split()
    try:
        start, end = float(parts[1]), float(parts[2])
    except (IndexError, ValueError) as error:
        message = f"expected a segment 'RECORDING START END', got {line!r}"
        raise ValueError(message) from error
    if not 0 <= start < end:
        raise ValueError(f"expected a segment that starts before it ends, got {line!r}")
    return parts[0], start, end - start
