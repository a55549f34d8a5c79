"""The results of one run of a study, in a small JSON file."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from cortado.model.config_reader import build, json_tree
from cortado.model.whole_file import write_whole
from cortado.training.scoring.delay import Delay
from cortado.training.studies.plan import Plan

# The error rate of each token that is counted.
RATES = {"words": "WER", "characters": "CER", "phones": "PER"}


@dataclass(frozen=True)
class Count:
    """Errors of so many reference tokens."""

    errors: int
    length: int

    @property
    def percent(self) -> float:
        """Errors per 100 tokens."""
        return 100 * self.errors / max(self.length, 1)


@dataclass(frozen=True)
class Scored:
    """A set in one way of decoding."""

    name: str
    mode: str  # "online", as streams do greedily, or a mode of model/search/offline.py
    utterances: int
    hours: float
    words: Count | None  # None of a model that writes phones
    characters: Count | None  # the same
    delay: Delay | None = None  # of online decoding; None where no character is correct
    phones: Count | None = None  # TIMIT's 61 folded to 39; None of a model that writes letters

    @property
    def counts(self) -> dict[str, Count]:
        """What was counted, by the names in RATES."""
        every = {name: getattr(self, name) for name in RATES}
        return {name: count for name, count in every.items() if count}

    @property
    def main(self) -> Count:
        """What claims are about."""
        return next(iter(self.counts.values()))


@dataclass(frozen=True)
class Start:
    """The checkpoint with whose weights a run begins."""

    recipe: str
    updates: int
    digest: str  # of its weights


@dataclass(frozen=True)
class CorpusShare:
    """A corpus that a run is trained on, and its weight in the recipe."""

    name: str
    share: float  # of the weights
    utterances: int
    hours: float


@dataclass(frozen=True)
class Run:
    """A run: how it came about and what it is worth."""

    row: str
    seed: int
    shared: str  # digest of what all runs of the study share
    configuration: str  # digest of the decoder, the seed and what is shared
    start: Start
    parameters: int
    updates: int
    processes: int
    batch_seconds: float  # of each process
    training_seconds: float  # in updates, of the clock
    corpora: tuple[CorpusShare, ...]
    scores: tuple[Scored, ...]

    def score(self, name: str, mode: str) -> Scored | None:
        """Return the score on a set in one way of decoding, None where there is none."""
        return next((s for s in self.scores if (s.name, s.mode) == (name, mode)), None)


def write(run: Run, path: Path) -> None:
    """Write a run as JSON, whole or not at all."""
    write_whole(path, json.dumps(asdict(run), indent=1) + "\n")


def read(path: Path) -> Run:
    """Return the run that `write` wrote.

    Raises: ValueError for something else; OSError.
    """
    return build(Run, json_tree(path), str(path), path.parent)


def stored(planned: Iterable[Plan], shared: str) -> list[Run]:
    """Return the runs whose files are there.

    Raises: ValueError where one is none, does not share what all do, begins with other weights
    than the first, or is of another decoder or seed than planned.
    """
    runs = list[Run]()
    for one in planned:
        path = one.result
        if not path.exists():
            continue
        runs.append(read(path))
        expected = {
            "shared": shared,
            "start": runs[0].start,
            "configuration": one.configuration,
        }
        for name, wanted in expected.items():
            if (got := getattr(runs[-1], name)) != wanted:
                raise ValueError(
                    f"{path}: expected {name} {wanted}, got {got}; runs of another recipe or start "
                    "are another study"
                )
    return runs
