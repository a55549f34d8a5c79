"""A cache of log-mel frames on disk, so that training reads each recording once.

Each manifest has a folder: `frames.f16` has all frames one after another, `index.jsonl` a line for
each utterance. When the manifest grows, only the new utterances are computed, and when a recording
has changed, only that one.
A recording may be there at several speeds, as a tape that runs faster or slower (Ko et al. 2015).
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from cortado.model.audio.error import AudioError
from cortado.model.config import PLAIN, FeatureConfig
from cortado.model.features.framing import HOP, SAMPLE_RATE
from cortado.model.features.log_mel import LogMel
from cortado.model.lock import LOCK, locked
from cortado.model.progress import Count, counted, unwatched
from cortado.model.vocabulary import Vocabulary
from cortado.model.whole_file import named
from cortado.training.data.manifest import Utterance, read_for
from cortado.training.data.parallel import parallel_map
from cortado.training.data.recordings import samples_of

Key = tuple[str, float]  # an utterance's id, and its speed

LETTERS = Vocabulary()
CHUNK = 16  # recordings that a process takes at once
PROBE = 4096  # bytes in the middle of a file, by which it is told from another one


@dataclass(frozen=True)
class CachedUtterance:
    """Where an utterance's frames are in the cache, and its text."""

    id: str
    text: str
    start: int  # frames
    frames: int
    speaker: str = ""  # the manifest's, which is not in the cache
    speed: float = 1.0  # at which it is played
    audio: str = ""  # a digest that tells its recording from another one

    @property
    def key(self) -> Key:
        """What no other utterance of the cache has."""
        return self.id, self.speed


class CachedCorpus:
    """The log-mel frames of a manifest's utterances."""

    def __init__(
        self, folder: Path, utterances: Sequence[CachedUtterance], bands: int = PLAIN.bands
    ) -> None:
        self.folder, self.utterances, self.bands = folder, utterances, bands
        path = folder / "frames.f16"
        self._frames = np.memmap(path, np.float16, "r").reshape(-1, bands)

    def __reduce__(self) -> tuple[object, ...]:
        # Pickled, a memory map would be its whole content.
        return CachedCorpus, (self.folder, self.utterances, self.bands)

    def __len__(self) -> int:
        return len(self.utterances)

    def logmel(self, index: int) -> NDArray[np.float32]:
        """Return the (T, F) log-mel frames of an utterance."""
        utterance = self.utterances[index]
        stop = utterance.start + utterance.frames
        halves = torch.from_numpy(self._frames[utterance.start : stop].copy())
        return halves.float().numpy()  # numpy's own conversion takes thrice the time


def _frames(played: tuple[Utterance, float], features: FeatureConfig) -> NDArray[np.float16]:
    torch.set_num_threads(1)
    utterance, speed = played
    samples = samples_of(utterance)
    if speed != 1:
        samples = soxr.resample(samples, SAMPLE_RATE * speed, SAMPLE_RATE)
    if len(samples) < HOP:
        got = f"{len(samples) * 1000 / SAMPLE_RATE:g} ms of {utterance.id!r}"
        raise AudioError(utterance.audio, f"at least {HOP * 1000 // SAMPLE_RATE} ms of audio", got)
    with torch.no_grad():
        logmel = LogMel(features)(torch.from_numpy(samples).unsqueeze(0))[0]
    return logmel.numpy().astype(np.float16)


def cached(
    manifest: Path,
    cache: Path,
    workers: int = 1,
    progress: Count = unwatched,
    vocabulary: Vocabulary = LETTERS,
    features: FeatureConfig = PLAIN,
    speeds: Sequence[float] = (1.0,),
) -> CachedCorpus:
    """Return a manifest's log-mel frames, computing those that the cache lacks.

    Args:
        manifest: JSON lines.
        cache: folder of all caches.
        workers: processes.
        progress: called with the utterances done and the total.
        vocabulary: that spells the texts.
        features: whose bands the frames have.
        speeds: at each of which every recording is in the corpus.

    Raises:
        ValueError: a broken manifest or recording; it is named.
        OSError: a file that cannot be read or written, or a process that died.
    """
    folder = cache / _name(manifest, features)
    folder.mkdir(parents=True, exist_ok=True)
    utterances = read_for(manifest, vocabulary)
    played = [(u, speed) for speed in speeds for u in utterances]
    audio = {u.id: _digest(u) for u in utterances}
    with locked(folder / LOCK):  # two runs that share a cache would mix their frames
        stored = _filled(folder, played, audio, workers, progress, features)
    found = [replace(stored[u.id, s], text=u.text, speaker=u.speaker) for u, s in played]
    return CachedCorpus(folder, found, features.bands)


def _filled(
    folder: Path,
    played: Sequence[tuple[Utterance, float]],
    audio: Mapping[str, str | None],
    workers: int,
    progress: Count,
    features: FeatureConfig,
) -> dict[Key, CachedUtterance]:
    """Return the index of a cache, once it has all utterances at their speeds.

    `audio` has the digest of each, by its name.
    """
    frames_path, index_path = folder / "frames.f16", folder / "index.jsonl"
    frames_path.touch()
    frame_bytes = features.bands * np.dtype(np.float16).itemsize
    stored = _index(index_path, frames_path.stat().st_size // frame_bytes)
    kept = {key for key, one in stored.items() if audio.get(one.id) in (one.audio, None)}
    todo = [(u, speed) for u, speed in played if (u.id, speed) not in kept]
    start = max((u.start + u.frames for u in stored.values()), default=0)
    os.truncate(frames_path, start * frame_bytes)  # a kill may leave frames that the index lacks
    with named(folder), frames_path.open("ab") as frames, index_path.open("a") as index:
        computed = parallel_map(partial(_frames, features=features), todo, workers, CHUNK)
        pairs = zip(todo, computed, strict=True)
        for (utterance, speed), logmel in counted(pairs, len(todo), progress):
            frames.write(logmel.tobytes())
            frames.flush()
            own = utterance.id, utterance.text, start, len(logmel)
            entry = CachedUtterance(*own, speed=speed, audio=audio[utterance.id] or "")
            index.write(json.dumps(vars(entry)) + "\n")
            index.flush()
            stored[entry.key] = entry
            start += len(logmel)
    return stored


def _digest(utterance: Utterance) -> str | None:
    """Return what changes with an utterance's audio; None where the file cannot be read.

    A copy on another machine, whose file has another age, has the same.
    """
    try:
        with utterance.audio.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(size // 2)
            part = size, utterance.start, utterance.duration, file.read(PROBE)
    except OSError:
        return None
    return hashlib.sha256(repr(part).encode()).hexdigest()[:12]


def _name(manifest: Path, features: FeatureConfig) -> str:
    """Return the name of a manifest's folder in the cache."""
    key = hashlib.sha256(str(manifest.resolve()).encode()).hexdigest()[:12]
    name = f"{manifest.parent.name}-{manifest.stem}-{key}"
    if (features.mels, features.energy) == (PLAIN.mels, PLAIN.energy):
        return name
    return f"{name}-{features.mels}{'-energy' if features.energy else ''}"


def _index(path: Path, frames: int) -> dict[Key, CachedUtterance]:
    """Return the index of a cache with so many frames on disk, as far as it is whole."""
    entries: dict[Key, CachedUtterance] = {}
    if not path.exists():
        return entries
    size = 0  # bytes of complete lines
    with path.open("rb+") as file:
        for line in file:
            try:
                entry = CachedUtterance(**json.loads(line))
            except (ValueError, TypeError):
                break
            if not line.endswith(b"\n") or entry.start + entry.frames > frames:
                break
            entries[entry.key] = entry
            size += len(line)
        file.truncate(size)
    return entries
