"""Sets of utterances to score, from a manifest, a prepared corpus or a plain folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import av

from cortado.training.data.corpora.folder import recordings
from cortado.training.data.corpora.source import Found, Problem
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
    a .txt file of the same name (as `cortado prepare folder` reads it).

    Raises:
        ValueError: a manifest is not what it should be, a folder holds nothing of the kind, or
            two sets have one name, by which results are told apart.
        OSError: a file cannot be read.
    """
    sets = [one for path in paths for one in _sets(path)]
    check_names([one.name for one in sets])
    return sets


def check_names(names: Sequence[str]) -> None:
    """Check that no two sets have one name.

    Raises:
        ValueError: two have.
    """
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(
            f"expected sets of different names, got {twice[0]} twice; name its folder otherwise"
        )


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
    found = list(recordings(folder))
    silent = [one for one in found if isinstance(one, Problem)]
    if silent:
        others = f" (and {len(silent) - 1} others)" if silent[1:] else ""
        raise ValueError(f"{silent[0].where}: {silent[0].what}{others}")
    if not found:
        raise ValueError(
            f"expected manifests (*.jsonl) or recordings with texts in {folder}, got neither"
        )
    utterances = [_recording(one, folder) for one in found if isinstance(one, Found)]
    return sorted(utterances, key=lambda one: one.audio)


def _recording(one: Found, folder: Path) -> Utterance:
    name, path = one.audio.relative_to(folder), one.audio.absolute()
    return Utterance(name.as_posix(), path, _seconds(path), one.speaker, one.text.lower())


def _seconds(path: Path) -> float:
    """Return how long a recording says it is, 0 where it does not; reading it will tell."""
    try:
        with av.open(str(path)) as container:
            return (container.duration or 0) / av.time_base
    except (av.FFmpegError, OSError):
        return 0.0
