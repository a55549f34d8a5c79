"""LibriSpeech and LibriTTS: `split/speaker/chapter/`, transcripts beside the audio.

Sources of the figures: Panayotov et al. 2015, table 1; Zen et al. 2019, table 1; counts of files as
released (openslr.org 12 and 60).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from cortado.training.data.corpora.source import (
    Corpus,
    Found,
    Problem,
    Published,
    corpus,
    read_text,
    walk,
)

LIBRISPEECH = {
    "train-clean-100": Published(28_539, 100.6, 251),
    "train-clean-360": Published(104_014, 363.6, 921),
    "train-other-500": Published(148_688, 496.7, 1166),
    "dev-clean": Published(2_703, 5.4, 40),
    "dev-other": Published(2_864, 5.3, 33),
    "test-clean": Published(2_620, 5.4, 40),
    "test-other": Published(2_939, 5.1, 33),
}
LIBRITTS = {
    "train-clean-100": Published(33_236, 53.78, 247),
    "train-clean-360": Published(116_500, 191.29, 904),
    "train-other-500": Published(205_044, 310.08, 1160),
    "dev-clean": Published(5_736, 8.97, 40),
    "dev-other": Published(4_613, 6.43, 33),
    "test-clean": Published(4_837, 8.56, 39),
    "test-other": Published(5_120, 6.69, 33),
}
SPEAKER_AND_CHAPTER = re.compile(r"\d+")

Reader = Callable[[Path, list[Path]], Iterator[Found | Problem]]


def read_librispeech(discs: Sequence[Path]) -> Corpus:
    """Return a part for each split of LibriSpeech that is there.

    Raises: ValueError where there is none.
    """
    return _read(discs, LIBRISPEECH, _chapter_of_librispeech, "LibriSpeech")


def read_libritts(discs: Sequence[Path]) -> Corpus:
    """Return a part for each split of a corpus laid out like LibriTTS.

    Raises: ValueError where there is none.
    """
    return _read(discs, LIBRITTS, _chapter_of_libritts, "LibriTTS")


def _read(
    discs: Sequence[Path], published: Mapping[str, Published], chapter: Reader, name: str
) -> Corpus:
    chapters: dict[Path, list[Path]] = {}
    for path in walk(discs):
        folder = path.parent
        if all(SPEAKER_AND_CHAPTER.fullmatch(one.name) for one in (folder, folder.parent)):
            chapters.setdefault(folder, []).append(path)
    splits: dict[str, list[Found | Problem]] = {}
    for folder, files in chapters.items():
        splits.setdefault(folder.parent.parent.name.lower(), []).extend(chapter(folder, files))
    expected = f"{name}'s split/speaker/chapter/ in the folders given"
    return corpus(dict(sorted(splits.items())), expected, published=published)


def _chapter_of_librispeech(folder: Path, files: list[Path]) -> Iterator[Found | Problem]:
    """Yield the utterances of a chapter: lines `1-2-0003 HE SAID` of its .trans.txt."""
    audio = {path.stem: path for path in files if path.suffix.lower() in (".flac", ".wav", ".ogg")}
    transcribed = set()
    for path in (path for path in files if path.name.lower().endswith(".trans.txt")):
        for line in read_text(path).splitlines():
            name, _, text = line.strip().partition(" ")
            transcribed.add(name)
            if name in audio:
                yield _found(name, audio[name], folder, text)
            elif name:
                yield Problem(f"{path}: {name}", "missing: its audio")
    for name in sorted(audio.keys() - transcribed):
        yield Problem(str(audio[name]), "missing: its line in a .trans.txt")


def _chapter_of_libritts(folder: Path, files: list[Path]) -> Iterator[Found | Problem]:
    """Yield the utterances of a chapter: `1_2_000003_000001.wav` and `.normalized.txt`."""
    by_name = {path.name.lower(): path for path in files}
    for path in (path for path in files if path.suffix.lower() in (".wav", ".flac")):
        stem = path.stem.lower()
        text = by_name.get(f"{stem}.normalized.txt") or by_name.get(f"{stem}.original.txt")
        if text is None:
            yield Problem(str(path), "missing: its .normalized.txt")
        else:
            yield _found(path.stem, path, folder, read_text(text).strip())
    for name, path in by_name.items():
        stem, ending, _ = name.partition(".normalized.txt")
        if ending and not {f"{stem}.wav", f"{stem}.flac"} & by_name.keys():
            yield Problem(str(path), "missing: its audio")


def _found(name: str, audio: Path, folder: Path, text: str) -> Found:
    speaker, chapter = folder.parent.name, folder.name
    return Found(name, audio, speaker, text, fields={"chapter": chapter})
