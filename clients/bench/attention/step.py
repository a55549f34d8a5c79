"""The time of one update of the whole recogniser, with MoChA and with soft attention."""

import statistics
import time
from dataclasses import dataclass

import torch
from torch import nn

from cortado.model.attention.config import AttentionConfig, Kind
from cortado.model.config import DecoderConfig, RecognizerConfig
from cortado.model.features.framing import FRAMES_PER_STEP
from cortado.model.progress import Progress
from cortado.model.recognizer import Recognizer
from cortado.training.data.batches import FRAMES_PER_SECOND, Batch
from cortado.training.learning.losses import losses
from cortado.training.learning.stage import Stage

UTTERANCES, SECONDS, SYMBOLS = 16, 6, 70  # of a batch; about 12 characters a second
ROUNDS = 15  # of each, in turns
KINDS: tuple[Kind, ...] = ("mocha", "soft")


@dataclass(frozen=True)
class Step:
    """One attention's update: losses, gradients and Adam, on one thread."""

    attention: str
    milliseconds: float  # median of the rounds


def batch(symbols: int) -> Batch:
    """Return a batch of noise, of the size of speech."""
    generator = torch.Generator().manual_seed(0)
    frames = SECONDS * FRAMES_PER_SECOND
    logmel = torch.randn(UTTERANCES, frames, 80, generator=generator)
    targets = torch.randint(symbols, (UTTERANCES, SYMBOLS), generator=generator)
    lengths = torch.full((UTTERANCES,), frames // FRAMES_PER_STEP)
    return Batch(logmel, lengths, targets, torch.full((UTTERANCES,), SYMBOLS))


class _Learner:
    """A recogniser that learns, as the trainer has it."""

    def __init__(self, kind: Kind) -> None:
        torch.manual_seed(0)
        attention = AttentionConfig(kind=kind)
        self.model = Recognizer(RecognizerConfig(decoder=DecoderConfig(attention=attention)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-4)
        self.stage = Stage(kind, 1, attention=1.0, noise=1.0 if kind == "mocha" else 0.0)
        self.batch = batch(len(self.model.config.vocabulary))

    def update(self) -> float:
        """Take a step and return its seconds."""
        started = time.perf_counter()
        self.optimizer.zero_grad()
        losses(self.model, self.batch, self.stage)["total"].backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return time.perf_counter() - started


def measure(progress: Progress, rounds: int = ROUNDS) -> list[Step]:
    """Return the time of an update with each attention, on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        learners = [_Learner(kind) for kind in KINDS]
        times: list[list[float]] = [[] for _ in KINDS]
        for number in range(rounds + 1):
            progress("updates of the recogniser", number, rounds + 1)
            for learner, spent in zip(learners, times, strict=True):
                spent.append(learner.update())
    finally:
        torch.set_num_threads(before)
    progress("updates of the recogniser", rounds + 1, rounds + 1)
    first = 1  # which compiles
    return [
        Step(kind, 1e3 * statistics.median(spent[first:]))
        for kind, spent in zip(KINDS, times, strict=True)
    ]
