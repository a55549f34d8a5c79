"""Small models of texts, and toy tasks that they learn in seconds."""

import random
from collections.abc import Callable, Sequence

import torch
from torch import nn

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention.config import AttentionConfig, Kind
from cortado.model.config import DecoderConfig
from cortado.training.text.batches import collate
from cortado.training.text.loss import loss
from cortado.training.text.model import TextModel, Vocabularies
from cortado.training.text.readers import Pair
from cortado.training.text.recipe import Data, Row, TextRecipe, TokenEncoderConfig, Training
from cortado.training.text.search import Source, search
from cortado.training.text.vocabulary import Words

LETTERS = "abcdef"
WORDS = Vocabularies(Words(("<unk>", *LETTERS)), Words(("<unk>", *LETTERS)))
KINDS: tuple[Kind, ...] = ("soft", "monotonic", "mocha")
Task = Callable[[Sequence[str]], list[str]]


def recipe(
    attention: AttentionConfig,
    decoder: DecoderConfig | None = None,
    encoder: TokenEncoderConfig | None = None,
    training: Training | None = None,
    copies: bool = False,
) -> TextRecipe:
    return TextRecipe(
        "toy",
        "A toy",
        "summary",
        Data((), (), (), 7, 7, shared=True),
        training or Training(1),
        (Row(attention.kind, attention.kind, attention),),
        encoder or TokenEncoderConfig(6, 5),
        decoder or DecoderConfig(8, 4),
        copies=copies,
    )


def model(chosen: TextRecipe, seed: int = 0) -> TextModel:
    torch.manual_seed(seed)
    return TextModel(chosen, chosen.rows[0], WORDS).eval()


def source(words: Sequence[str], copies: bool = False) -> Source:
    extra = WORDS.target.lacking(words) if copies else ()
    encoded = torch.tensor(WORDS.source.encode(words))
    return Source(encoded, torch.tensor(WORDS.target.encode(words, extra)), len(extra))


def drawn(task: Task, count: int, dice: random.Random) -> list[Pair]:
    """Return pairs of two to six letters, an even number of them."""
    texts = [dice.choices(LETTERS, k=dice.randrange(2, 7, 2)) for _ in range(count)]
    return [Pair(tuple(text), tuple(task(text))) for text in texts]


def wrong(built: TextModel, pairs: Sequence[Pair], hard: bool) -> int:
    """Return how many texts are not written exactly."""
    written = (search(built, source(one.source), hard, 1, 12).symbols for one in pairs)
    return sum(
        tuple(WORDS.target.decode(found)) != one.target
        for found, one in zip(written, pairs, strict=True)
    )


def learn(built: TextModel, task: Task, training: Training) -> int:
    """Train until nothing is wrong in a hundred new texts; return what is wrong at last."""
    dice, rate = random.Random(1), training.learning_rate
    optimizer = torch.optim.Adam(built.parameters(), rate)
    hard = built.decoder.online
    for update in range(1, training.updates + 1):
        built.train()
        optimizer.param_groups[0]["lr"] = rate * (1 - update / (training.updates + 1))
        optimizer.zero_grad()
        pairs = drawn(task, training.batch, dice)
        one = loss(built, collate(pairs, WORDS, built.copies), training)
        (one.total / one.words).backward()
        nn.utils.clip_grad_norm_(built.parameters(), 1.0)
        optimizer.step()
        if update % 50 == 0:
            built.eval()
            if not wrong(built, drawn(task, 20, dice), hard) and not wrong(
                built, drawn(task, 100, dice), hard
            ):
                return 0
    return wrong(built.eval(), drawn(task, 100, dice), hard)


def saturated(built: TextModel) -> TextModel:
    """Return the model with energies far from 0, and symbols that depend on what is attended."""
    energy = built.decoder.attention.monotonic
    with torch.no_grad():
        energy.scale.fill_(60_000.0)
        energy.bias.fill_(0.0)
        built.decoder.output.bias[built.decoder.end] -= 2
        for weight in (built.decoder.output.weight, built.decoder.lstm.weight_ih):
            weight.mul_(5)
    return built
