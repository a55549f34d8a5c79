"""The plan of a study that compares decoders: its rows, its runs, and what all runs share."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import PositiveInt

from cortado.model.checkpoint_reader import read as read_checkpoint
from cortado.model.config import DecoderConfig
from cortado.model.config_reader import read_toml
from cortado.training.bounds import SOME, Name, Seeds
from cortado.training.data.evaluation_sets import NamedSet, set_name
from cortado.training.data.manifest import read as read_manifest
from cortado.training.learning import recipe as recipes
from cortado.training.learning.recipe import Recipe

DIGITS = 12  # of a digest
EARLIER = {"final_learning_rate": 1e-3}  # defaults once, which stored digests lack as well


@dataclass(frozen=True)
class Row:
    """A decoder that is compared, and with which seeds it is trained."""

    name: Name
    title: str
    decoder: DecoderConfig
    seeds: Seeds = (1,)


@dataclass(frozen=True)
class Part:
    """The utterances of a manifest that are evaluated: one of so many."""

    manifest: Path
    every: PositiveInt = 1

    def utterances(self) -> NamedSet:
        """Return them.

        Raises: ValueError for a broken manifest; OSError.
        """
        utterances = read_manifest(self.manifest, None)[:: self.every]
        return NamedSet(set_name(self.manifest), tuple(utterances))


@dataclass(frozen=True)
class Study:
    """A comparison."""

    name: Name
    recipe: Path  # of what all rows share
    start: Path  # with whose weights all begin: a checkpoint's folder, or a recipe to train first
    processes: PositiveInt  # that train a run
    results: Path  # folder of a JSON file for each run
    page: Path  # on which the table is
    offline: str  # row against which ...
    online: str  # ... this one is held
    sets: Annotated[tuple[Part, ...], SOME]
    rows: Annotated[tuple[Row, ...], SOME]
    pictures: tuple[str, ...] = ()  # utterances of the sets whose alignments are drawn

    def __post_init__(self) -> None:
        """Check what the types cannot say.

        Raises:
            ValueError: two rows of one name, or no such row to hold against another.
        """
        names = [row.name for row in self.rows]
        if len(set(names)) != len(names):
            raise ValueError(f"expected rows of different names, got {', '.join(names)}")
        for name in (self.offline, self.online):
            if name not in names:
                raise ValueError(f"expected a row among {', '.join(names)}, got {name!r}")


@dataclass(frozen=True)
class Plan:
    """One run of a study."""

    study: Study
    row: Row
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder and its file."""
        return f"{self.row.name}-{self.seed}"

    @property
    def result(self) -> Path:
        """Where its figures are."""
        return self.study.results / f"{self.name}.json"

    @property
    def configuration(self) -> str:
        """A digest of what it shares with the others and of what tells it apart."""
        return digest([shared(self.study), self.row.decoder, self.seed])

    def recipe(self, start: Path) -> Recipe:
        """Return its recipe, which begins with the weights and has the encoder of a checkpoint."""
        base = recipes.read(self.study.recipe)
        encoder = read_checkpoint(start).config.encoder
        model = replace(base.model, encoder=encoder, decoder=self.row.decoder)
        return replace(base, name=self.name, seed=self.seed, model=model, start=start)


def read(path: Path) -> Study:
    """Return the study in a TOML file; paths in it are relative to the file's folder.

    Raises:
        ValueError: not TOML, an unknown or missing key, or a value of the wrong type.
    """
    return read_toml(Study, path)


def plans(study: Study, rows: Sequence[str] = ()) -> Iterator[Plan]:
    """Yield the runs of a study, or those of some of its rows.

    Raises: ValueError for a row that it does not have.
    """
    known = [row.name for row in study.rows]
    for name in rows:
        if name not in known:
            raise ValueError(f"expected a row among {', '.join(known)}, got {name!r}")
    for row in study.rows:
        if not rows or row.name in rows:
            yield from (Plan(study, row, seed) for seed in row.seeds)


def shared(study: Study) -> str:
    """Return a digest of what all runs share: recipe, processes and what is evaluated.

    The weights with which they begin have a digest of their own.
    """
    base = recipes.read(study.recipe)
    model = replace(base.model, decoder=DecoderConfig())
    same = replace(base, description="", seed=0, start=None, model=model)
    counted = ["phones"] if base.model.vocabulary.phones else []  # the digest of others is older
    return digest([_chosen(same) | {"name": ""}, study.processes, *study.sets, *counted])


def digest(parts: Sequence[Any]) -> str:
    """Return a digest of configurations, which a new key at its default does not change."""
    text = json.dumps([_chosen(part) for part in parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _chosen(value: Any) -> Any:
    """Return what of a configuration is not the default; of paths the last two names."""
    if isinstance(value, Path):
        return "/".join(value.parts[-2:])
    if isinstance(value, tuple):
        return [_chosen(one) for one in value]
    if not dataclasses.is_dataclass(value):
        return value
    found = {}
    for field in dataclasses.fields(value):
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        chosen = getattr(value, field.name)
        if chosen not in (default, EARLIER.get(field.name, default)):
            found[field.name] = _chosen(chosen)
    return found
