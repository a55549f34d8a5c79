"""Sets of utterances to score, from a manifest, a prepared corpus or a plain folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import av

from cortado.training.data.corpora.source import AUDIO_SUFFIXES
from cortado.training.data.manifest import Utterance, read

TRAINING = "train"  # manifests of a folder that begin so are not evaluated, if there are others


@dataclass(frozen=True)
class NamedSet:
    """Utterances that are scored together."""

    name: str
    utterances: tuple[Utterance, ...]


def gather(paths: Sequence[Path]) -> list[NamedSet]:
    """Return the sets at some paths, in order; nothing but manifests and texts is read.

    A file is a manifest. A folder is its manifests (*.jsonl), those for training left out unless
    there are no others; or, where it has none, its recordings at any depth, each with its text in
    a .txt file of the same name.

    Raises:
        ValueError: a manifest is not what it should be, or a folder holds nothing of the kind.
        OSError: a file cannot be read.
    """
    return [one for path in paths for one in _sets(path)]


def _sets(path: Path) -> list[NamedSet]:
    if not path.is_dir():
        return [_from_manifest(path)]
    manifests = sorted(path.glob("*.jsonl"))
    chosen = [one for one in manifests if not one.name.startswith(TRAINING)] or manifests
    if chosen:
        return [_from_manifest(one) for one in chosen]
    return [NamedSet(path.absolute().name, tuple(_plain(path)))]


def set_name(manifest: Path) -> str:
    """Return the name of a manifest's set: its folder and its file, `librispeech-mini/dev`."""
    path = manifest.absolute()
    return f"{path.parent.name}/{path.stem}"


def _from_manifest(path: Path) -> NamedSet:
    return NamedSet(set_name(path), tuple(read(path, None)))


def _plain(folder: Path) -> list[Utterance]:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in AUDIO_SUFFIXES)
    if not files:
        raise ValueError(
            f"expected manifests (*.jsonl) or recordings with texts in {folder}, got neither"
        )
    silent = [path for path in files if not path.with_suffix(".txt").is_file()]
    if silent:
        others = f" (nor for {len(silent) - 1} others)" if silent[1:] else ""
        raise ValueError(f"expected a text in {silent[0].with_suffix('.txt')}, got none{others}")
    return [_recording(path, folder) for path in files]


def _recording(path: Path, folder: Path) -> Utterance:
    """Return a recording as an utterance; the folder that it lies in stands for its speaker."""
    name = path.relative_to(folder)
    text = " ".join(path.with_suffix(".txt").read_text(encoding="utf-8-sig").lower().split())
    speaker = name.parent.as_posix() if name.parent.parts else folder.absolute().name
    return Utterance(name.as_posix(), path.absolute(), _seconds(path), speaker, text)


def _seconds(path: Path) -> float:
    """Return how long a recording says it is, 0 where it does not; reading it will tell."""
    try:
        with av.open(str(path)) as container:
            return (container.duration or 0) / av.time_base
    except (av.FFmpegError, OSError):
        return 0.0
