"""A corpus of synthetic speech from a text file: the library behind `cortado synth`."""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soxr

from cortado.model.arrays import Samples
from cortado.model.config_reader import json_tree
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.progress import Count, unwatched
from cortado.model.whole_file import named, write_tree, write_whole
from cortado.training.data.corpora import source
from cortado.training.data.corpora.english import unwritable
from cortado.training.data.parallel import parallel_map
from cortado.training.synthesis.effects import draw_effects, trim
from cortado.training.synthesis.engines import (
    PACKAGES,
    EngineError,
    draw_voice,
    installed_engines,
    speak,
)
from cortado.training.synthesis.utterance import Utterance, make_utterance

DEFAULT_SHARES = {"espeak-ng": 0.45, "flite": 0.5, "festival": 0.05}
FILES_PER_FOLDER = 1000
CHUNK = 8  # utterances that a process takes at once
BABBLE_VOICES = 16
WHOLE_LINES = 0.2  # share of utterances that are a whole line, not a span of words
WORDS = (2, 14)  # of a span
MAX_CHARACTERS = 220  # longer texts are cut after a word

MANIFEST = "manifest.jsonl"
FACTS = "synth.json"  # what a folder's corpus was made from

logger = logging.getLogger(__name__)


class SynthError(OSError):
    """Some utterances could not be spoken; all others are written."""


@dataclass(frozen=True)
class SynthConfig:
    """What to speak and where to write it.

    Each utterance depends on the text, the seed, its number, and the engines alone.
    """

    text: Path  # one sentence a line: a-z, apostrophe, space
    output: Path  # folder of manifest.jsonl and audio/
    count: int
    seed: int = 0
    workers: int = 1
    engines: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_SHARES))  # shares

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value out of its range, or an unknown engine.
        """
        unknown = sorted(set(self.engines) - set(PACKAGES))
        if unknown:
            raise ValueError(f"expected engines among {', '.join(PACKAGES)}, got {unknown[0]!r}")
        if not any(share > 0 for share in self.engines.values()) or min(self.engines.values()) < 0:
            raise ValueError(f"expected engine shares of 0 or more, got {dict(self.engines)}")
        for name, least in (("count", 1), ("seed", 0), ("workers", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"expected {name} >= {least}, got {getattr(self, name)}")


def synthesise(config: SynthConfig, progress: Count = unwatched) -> Path:
    """Write the corpus of `config` and return the path of its manifest.

    Utterances that an earlier, interrupted run has written are kept. The manifest grows as
    utterances are finished and is sorted at the end. `progress` gets (done, total).

    Raises:
        ValueError: a bad line of text, no engine, or a folder that holds another corpus.
        SynthError: some utterances failed; a further run tries them again.
        OSError: a file that cannot be read or written, or a process that died.
    """
    lines = sentences(config.text)
    voices = _usable_engines(config.engines)
    config.output.mkdir(parents=True, exist_ok=True)
    _check_folder(config, voices, lines)
    manifest = config.output / MANIFEST
    utterances = plan(config, lines, voices)
    rows = {row["id"]: row for row in _written(manifest, config.output)}
    rows = {one.id: rows[one.id] for one in utterances if one.id in rows}
    _write_rows(manifest, rows)
    missing = [one for one in utterances if one.id not in rows]
    babble = _babble(config, lines, voices) if missing else []
    failures = []
    progress(len(rows), len(utterances))
    with named(manifest), manifest.open("a", encoding="utf-8") as file:
        make = partial(make_utterance, folder=config.output, babble=babble)
        for row in parallel_map(make, missing, min(config.workers, len(missing)), CHUNK):
            if "error" in row:
                failures.append(row)
                logger.error("%s: %s", row["id"], row["error"])
                continue
            rows[row["id"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
            progress(len(rows), len(utterances))
    _write_rows(manifest, rows)
    if failures:
        raise SynthError(
            f"expected {len(utterances)} utterances, {len(failures)} of them failed, "
            f"first {failures[0]['id']}: {failures[0]['error']}"
        )
    return manifest


def sentences(path: Path) -> list[str]:
    """Return the sentences of a text file, one a line, blank lines left out.

    Raises:
        ValueError: a line with other characters, a word without a letter, or no line at all.
    """
    lines = []
    for number, line in enumerate(source.read_text(path).splitlines(), start=1):
        words = line.split(" ")
        if odd := unwritable(line):
            raise ValueError(f"{path}, line {number}: expected a-z, ' and space, got {odd[0]!r}")
        if any(word and not word.strip("'") for word in words):
            raise ValueError(f"{path}, line {number}: expected words, got a lone apostrophe")
        if any(words):
            lines.append(" ".join(word for word in words if word))
    if not lines:
        raise ValueError(f"{path}: expected a sentence a line, got an empty file")
    return lines


def plan(
    config: SynthConfig, lines: Sequence[str], voices: Mapping[str, tuple[str, ...]]
) -> list[Utterance]:
    """Return the utterances of `config`, each drawn from (seed, index) alone."""
    order = np.random.default_rng([config.seed, 0]).permutation(len(lines))
    utterances = []
    for index in range(config.count):
        rng = np.random.default_rng([config.seed, 1, index])
        text = cut_text(lines[order[index % len(lines)]], rng)
        voice = draw_voice(rng, config.engines, voices)
        folder = f"{index // FILES_PER_FOLDER:03d}"
        audio = f"audio/{folder}/synth-{config.seed}-{index:07d}.opus"
        utterances.append(Utterance(index, config.seed, text, voice, draw_effects(rng), audio))
    return utterances


def cut_text(line: str, rng: np.random.Generator) -> str:
    """Return the line or a random span of its words."""
    words = line.split(" ")
    if rng.random() >= WHOLE_LINES:
        length = min(int(rng.integers(WORDS[0], WORDS[1] + 1)), len(words))
        start = int(rng.integers(len(words) - length + 1))
        words = words[start : start + length]
    while len(words) > 1 and len(" ".join(words)) > MAX_CHARACTERS:
        words.pop()
    return " ".join(words)


def _usable_engines(shares: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    wanted = [engine for engine, share in shares.items() if share > 0]
    installed = installed_engines()
    usable = {engine: installed[engine] for engine in wanted if engine in installed}
    missing = [engine for engine in wanted if engine not in installed]
    packages = " ".join(PACKAGES[engine] for engine in missing)
    if not usable:
        raise ValueError(
            f"expected one of the speech engines {', '.join(wanted)}, got none; "
            f"on Debian: apt-get install {packages}"
        )
    if missing:
        logger.warning("without %s; on Debian: apt-get install %s", ", ".join(missing), packages)
    return usable


def _check_folder(
    config: SynthConfig, voices: Mapping[str, tuple[str, ...]], lines: Sequence[str]
) -> None:
    """Write the facts of the corpus, or compare them with what the folder already holds."""
    facts = dataclasses.asdict(config)
    for name in ("output", "workers", "count"):  # another count extends or shortens the corpus
        del facts[name]
    facts["engines"] = dict(config.engines)
    facts["text"] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    facts["voices"] = {engine: list(names) for engine, names in voices.items()}
    path = config.output / FACTS
    if not path.exists():
        write_tree(path, facts)
        return
    earlier = json_tree(path)
    for name, value in facts.items():
        if earlier.get(name) != value:
            raise ValueError(
                f"{config.output} holds another corpus: expected {name} {earlier.get(name)!r}, "
                f"got {value!r}; choose another folder"
            )


def _written(manifest: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the manifest's rows whose audio exists; a line torn by a kill is passed over."""
    if not manifest.exists():
        return
    for line in manifest.read_text(encoding="utf-8").split("\n"):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if (folder / row["audio"]).exists():
            yield row


def _write_rows(manifest: Path, rows: Mapping[str, dict[str, Any]]) -> None:
    write_whole(manifest, "".join(json.dumps(rows[name]) + "\n" for name in sorted(rows)))


def _babble(
    config: SynthConfig, lines: Sequence[str], voices: Mapping[str, tuple[str, ...]]
) -> list[Samples]:
    """Return clean voices (N,) at 16 kHz for the crowd in the background, drawn from the seed."""
    rng = np.random.default_rng([config.seed, 2])
    quickest = {next(engine for engine in PACKAGES if engine in voices): 1.0}
    crowd = []
    for _ in range(BABBLE_VOICES):
        text = cut_text(lines[int(rng.integers(len(lines)))], rng)
        voice = draw_voice(rng, quickest, voices)
        try:
            speech, rate = speak(text, voice)
        except EngineError as error:
            logger.warning("one voice of the background less: %s", error)
            continue
        crowd.append(soxr.resample(trim(speech), rate, SAMPLE_RATE).astype(np.float32))
    return crowd
