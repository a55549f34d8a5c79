"""The recipe of a text task: its data, one model for all rows, and the attentions that differ."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import PositiveFloat, PositiveInt

from cortado.model.attention.config import AttentionConfig
from cortado.model.config import DecoderConfig
from cortado.model.config_reader import read_toml
from cortado.training.bounds import SOME, BelowOne, Count, Name, Seeds, Weight
from cortado.training.studies.plan import digest

Task = Literal["translation", "summary"]  # scored by BLEU, by ROUGE


@dataclass(frozen=True)
class Data:
    """The sets, each one file, two files or a folder (readers.py), and how they are cut."""

    train: tuple[Path, ...]
    dev: tuple[Path, ...]
    test: tuple[Path, ...]
    source_words: PositiveInt  # vocabulary of the sources, the unknown word included
    target_words: PositiveInt
    shared: bool = False  # one vocabulary of `source_words` for both; copying needs it
    longest_source: PositiveInt = 100  # words at which sources are cut
    longest_target: PositiveInt = 60


@dataclass(frozen=True)
class TokenEncoderConfig:
    """Embeddings and recurrent layers over them."""

    embedding: PositiveInt = 256
    width: PositiveInt = 256  # of each direction
    layers: PositiveInt = 1
    kind: Literal["lstm", "gru"] = "lstm"
    bidirectional: bool = False
    dropout: BelowOne = 0.0  # of embeddings and of the encoder's outputs


@dataclass(frozen=True)
class Training:
    """How long and how a row is trained."""

    updates: PositiveInt
    batch: PositiveInt = 64  # pairs
    learning_rate: Weight = 1e-3
    final_learning_rate: Weight = 1e-4  # reached along a cosine
    clip: PositiveFloat = 1.0  # global norm of the gradient
    noise: Weight = 1.0  # standard deviation of the pre-sigmoid noise of monotonic rows
    sampled: Count = 0  # words of a sampled softmax beside the batch's own; 0 for all words
    coverage: Weight = 0.0  # weight of See's coverage loss
    interval: PositiveInt = 200  # updates between snapshots


@dataclass(frozen=True)
class Row:
    """A mechanism that is compared."""

    name: Name
    title: str
    attention: AttentionConfig
    seeds: Seeds = (1,)


@dataclass(frozen=True)
class TextRecipe:
    """A task and the rows that are compared on it; all but the attention is the same for all."""

    name: Name
    title: str
    task: Task
    data: Data
    training: Training
    rows: Annotated[tuple[Row, ...], SOME]
    encoder: TokenEncoderConfig = field(default_factory=TokenEncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)  # its attention is the row's
    first: Literal["encoder", "zeros"] = "encoder"  # the decoder's first state
    copies: bool = False  # pointer-generator
    pictures: tuple[Count, ...] = (0, 1, 2)  # sentences of the test set that are drawn
    papers: str = ""  # the papers' figures, as the table says them
    order: tuple[str, ...] = ()  # of rows in them, best first

    def __post_init__(self) -> None:
        """Check what the types cannot say.

        Raises:
            ValueError: two rows of one name, or an order of other rows; copying without one
                vocabulary, or with a sampled softmax; the CTC head alone; a decoder that does not
                fit a row's attention.
        """
        names = [row.name for row in self.rows]
        if len(set(names)) < len(names):
            raise ValueError(f"expected rows of different names, got {', '.join(names)}")
        if self.copies and not self.data.shared:
            raise ValueError("expected one shared vocabulary of both texts to copy, got two")
        if self.copies and self.training.sampled:
            raise ValueError("expected copies or a sampled softmax, got both")
        if self.decoder.kind == "ctc":
            raise ValueError("expected a decoder of kind 'bahdanau' or 'luong', got 'ctc'")
        for name in self.order:
            if name not in names:
                raise ValueError(f"expected an order of {', '.join(names)}, got {name!r}")
        for row in self.rows:
            self.decoder_of(row)  # refuses what does not fit

    def decoder_of(self, row: Row) -> DecoderConfig:
        """Return a row's decoder."""
        return replace(self.decoder, attention=row.attention)

    def runs(self, rows: Sequence[str], seeds: Sequence[int]) -> list[tuple[Row, int]]:
        """Return the rows of these names with these seeds, all where none is said, seed by seed.

        Raises:
            ValueError: there is no such row, or it has no such seed.
        """
        known = {row.name: row for row in self.rows}
        for name in rows:
            if name not in known:
                raise ValueError(f"expected a row among {', '.join(known)}, got {name!r}")
        chosen = [known[name] for name in rows] or list(self.rows)
        every = sorted({seed for row in chosen for seed in row.seeds})
        for seed in seeds:
            if seed not in every:
                raise ValueError(f"expected a seed among {', '.join(map(str, every))}, got {seed}")
        wanted = seeds or every
        return [(row, seed) for seed in wanted for row in chosen if seed in row.seeds]


def configuration(recipe: TextRecipe, row: Row) -> str:
    """Return a digest of all that fixes a run but its seed; of files their last two names count."""
    alone = replace(row, name="", title="", seeds=())
    return digest([replace(recipe, rows=(alone,), title="", papers="", order=(), pictures=())])


def read(path: Path) -> TextRecipe:
    """Return the recipe in a TOML file; paths in it are relative to the file's folder.

    Raises:
        ValueError: not TOML, an unknown or missing key, or a value of the wrong type.
        OSError: the file cannot be read.
    """
    return read_toml(TextRecipe, path)
