"""The recipe of a training run: a TOML file read into frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import PositiveFloat, PositiveInt

from cortado.model import checkpoint_reader
from cortado.model.attention.config import MONOTONIC
from cortado.model.config import RecognizerConfig
from cortado.model.config_reader import build, toml_tree
from cortado.training.bounds import SOME, Count, Name, Share, Speed, Weight
from cortado.training.data.evaluation_sets import check_names, set_name
from cortado.training.data.pronounce import PHONES
from cortado.training.learning import snapshot
from cortado.training.learning.stage import Stage


@dataclass(frozen=True)
class Corpus:
    """A manifest and how often its utterances are drawn."""

    manifest: Path
    weight: Weight  # share of the utterances drawn, relative to the other corpora


@dataclass(frozen=True)
class Initialisation:
    """Initial weights; PyTorch's own where nothing is said."""

    encoder: PositiveFloat | None = None  # deviation of its matrices and filters, cut off at two
    embedding: PositiveFloat | None = None  # embeddings are uniform from minus this to this


Optimizer = Literal["adam", "muon"]  # muon: for the encoder's matrices, Adam for the rest
Rate = Literal["wer", "cer", "per"]  # error rates of words, characters, phones
Part = Literal["features", "encoder", "ctc", "phones", "decoder"]  # of a recogniser
PARTS: tuple[Part, ...] = get_args(Part)
CONFIGURED_BY = {  # the parts that each key of a recogniser's configuration belongs to
    "features": ("features",),
    "encoder": ("encoder",),
    "vocabulary": ("ctc", "decoder"),
    "decoder": ("decoder",),
    "phones": ("phones",),
}
RUNS = Path("runs")  # where a run's folder has its recipe's name
SPOKEN = 1 + len(PHONES)  # outputs of a head of phones; silence is the first


@dataclass(frozen=True)
class Recipe:
    """A whole training run."""

    name: Name
    corpora: Annotated[tuple[Corpus, ...], SOME]
    validation: tuple[Path, ...]
    stages: Annotated[tuple[Stage, ...], SOME]
    description: str = ""
    text: Path | None = None  # one sentence a line, for the stages that weigh text
    start: Path | None = None  # folder of a checkpoint whose weights the run begins with
    widen: bool = False  # the checkpoint's encoder is narrower and begins as a part of this one
    start_parts: tuple[Part, ...] = PARTS  # that are taken from it; the others begin new
    shrink: Share = 1.0  # share of its weights in the encoder and its heads; the rest begins new
    frozen: tuple[str, ...] = ()  # weights whose names begin so stay as they are
    speeds: tuple[Speed, ...] = (1.0,)  # recordings are drawn at one of them; 1 is their own
    tied_states: PositiveInt = 1200  # that an aligner learns at most, for stages that weigh them
    phone_delay: Count = 0  # frames of 10 ms by which the heads of states and phones wait for more
    seed: Count = 0
    batch_seconds: PositiveFloat = 80.0  # of padded audio in one process's batch
    batch_utterances: PositiveInt | None = None  # in one process's batch, at most
    max_seconds: PositiveFloat = 18.0  # longer utterances are left out
    optimizer: Optimizer = "adam"
    clip: PositiveFloat = 1.0  # global norm of the gradient
    l2: Weight = 0.0  # weight of half the squared weights in the loss, but for Muon's matrices
    weight_decay: Weight = 0.0  # of Muon's matrices in an update, relative to the learning rate
    average: Share = 0.999  # decay of the weights' moving average, which becomes the checkpoint
    best: Rate | None = None  # by which the best checkpoint is kept, in place of the last
    interval: PositiveInt = 500  # updates between checkpoints
    initialisation: Initialisation = field(default_factory=Initialisation)
    validation_utterances: PositiveInt = 150  # of each validation set, between checkpoints
    model: RecognizerConfig = field(default_factory=RecognizerConfig)

    def __post_init__(self) -> None:
        """Check what the types cannot say.

        Raises:
            ValueError: keys that do not fit each other.
        """
        if 1.0 not in self.speeds:
            raise ValueError(f"expected speeds with 1 among them, got {self.speeds}")
        if self.weight_decay and self.optimizer != "muon":
            raise ValueError(
                f"expected optimizer 'muon', whose matrices weight_decay is of, "
                f"got {self.optimizer!r}"
            )
        self._check_states()
        self._check_best()
        check_names([set_name(path) for path in self.validation])
        if not any(corpus.weight for corpus in self.corpora):  # the features' statistics need one
            raise ValueError("expected a corpus with a weight above 0, got none")
        for stage in self.stages:
            self._check_learns(stage)
            self._check_augmentation(stage)
            if stage.text and self.text is None:
                raise ValueError(f"expected text, which stage {stage.name!r} weighs, got none")
            if stage.text and self.model.decoder.kind == "ctc":
                raise ValueError(
                    f"expected a decoder that reads text, which stage {stage.name!r} weighs, "
                    "got kind 'ctc'"
                )

    @property
    def learns_states(self) -> bool:
        """Whether a stage weighs the states of phones."""
        return any(stage.states or stage.mmi for stage in self.stages)

    def check_start(self) -> None:
        """Check that what is said of a start is said of one: a study's recipe gets it later.

        Raises:
            ValueError: there is none.
        """
        parts = self.start_parts != PARTS
        said = {"widen": self.widen, "start_parts": parts, "shrink": self.shrink != 1}
        if self.start is None and any(said.values()):
            keys = ", ".join(key for key in said if said[key])
            raise ValueError(f"expected start, a checkpoint, beside {keys}, got none")

    def _check_learns(self, stage: Stage) -> None:
        decoder, losses = self.model.decoder, ["ctc", "consistency", "text", "states", "mmi"]
        if decoder.kind != "ctc":
            losses.append("attention")
            if decoder.attention.kind in MONOTONIC:
                losses.append("stop")
        if not any(getattr(stage, loss) for loss in losses):
            expected = f"one of {', '.join(losses)} above 0 in stage {stage.name!r}"
            raise ValueError(f"expected {expected}, got none")

    def _check_augmentation(self, stage: Stage) -> None:
        features = self.model.features
        widest = stage.augmentation.band_mask if stage.augmentation.band_masks else 0
        if widest > features.mels:
            raise ValueError(
                f"expected band_mask of at most {features.mels}, the mel bands, in "
                f"stage {stage.name!r}, got {widest}"
            )
        used = stage.augmentation.of_bands
        if features.energy and used:
            raise ValueError(
                f"expected no augmentation of mel bands in stage {stage.name!r}, beside which "
                f"the features have the energy, got {', '.join(used)}"
            )

    def _check_best(self) -> None:
        if self.best is None:
            return
        if not self.validation:
            raise ValueError(f"expected validation sets for best = {self.best!r}, got none")
        rates = ("per",) if self.model.vocabulary.phones else ("wer", "cer")
        if self.best not in rates:
            raise ValueError(f"expected best among {', '.join(rates)}, got {self.best!r}")

    def _check_states(self) -> None:
        for stage in self.stages:
            if stage.mmi and not self.model.phones:
                raise ValueError(
                    f"expected model.phones, whose head stage {stage.name!r} weighs by mmi, "
                    "got none"
                )
        if self.learns_states and self.model.vocabulary.phones:
            raise ValueError(
                "expected a vocabulary of characters, the states of whose phones a stage weighs, "
                "got one of phones"
            )
        if self.learns_states and 0 < self.model.phones < SPOKEN:
            raise ValueError(
                f"expected model.phones of {SPOKEN} or more, silence and espeak-ng's phones, whose "
                f"states a stage weighs, got {self.model.phones}"
            )


def read(path: Path, output: Path | None = None) -> Recipe:
    """Return the recipe in a TOML file; paths in it are relative to the file's folder.

    What its `model` does not say of the parts that are taken from `start` is as it is there or,
    where that has gone, as it was when the run in `output` began; RUNS / name if None.

    Raises:
        ValueError: not TOML, an unknown or missing key, or a value of the wrong type.
    """
    tree = toml_tree(path)
    run = output or RUNS / str(tree.get("name"))
    return build(Recipe, _completed(tree, path.parent, run), str(path), path.parent)


def _completed(tree: Mapping[str, Any], folder: Path, run: Path) -> Mapping[str, Any]:
    """Return a recipe's tree, its model completed from the checkpoint that it starts from.

    Where neither that nor a snapshot is there, the tree stays: who begins with it says so.
    """
    start, parts = tree.get("start"), tree.get("start_parts", PARTS)
    if not isinstance(start, str) or not isinstance(parts, (list, tuple)):
        return tree  # nothing to complete, or a mistake that is named when it is built
    if (folder / start / checkpoint_reader.CARD).exists():
        given = asdict(checkpoint_reader.read_config(folder / start))
    elif found := snapshot.snapshots(run):  # older ones lack the recipe
        given = snapshot.read(found[-1]).get("recipe", {}).get("model", {})
    else:
        return tree
    taken = {
        key: given[key]
        for key, of in CONFIGURED_BY.items()
        if key in given and any(part in of for part in parts)
    }
    return {**tree, "model": _overlaid(taken, tree.get("model", {}))}


def _overlaid(below: Mapping[str, Any], above: Any) -> Any:
    """Return a tree of tables in which the values of another one come first."""
    if not isinstance(above, Mapping):
        return above
    inner = {
        key: _overlaid(below[key], value) if isinstance(below.get(key), Mapping) else value
        for key, value in above.items()
    }
    return {**below, **inner}
