"""The training run: stages of a recipe, snapshots, validation; any number of processes."""

import copy
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from cortado.model import checkpoint
from cortado.model.features.speaker import by_speaker
from cortado.model.recognizer import Recognizer
from cortado.training.data.batches import FRAMES_PER_SECOND, Batch, Sampler
from cortado.training.data.log_mel_cache import Corpus
from cortado.training.data.pronounce import Lexicon
from cortado.training.data.speakers import voices
from cortado.training.data.text_sampler import TextSampler
from cortado.training.learning import snapshot as runstate
from cortado.training.learning.device import device_of, to_device
from cortado.training.learning.losses import losses, text_loss
from cortado.training.learning.monitor import Monitor
from cortado.training.learning.phone_loss import PhoneHead
from cortado.training.learning.recipe import Recipe, Stage
from cortado.training.learning.schedule import learning_rate, noise
from cortado.training.learning.start import begin_from, freeze
from cortado.training.learning.weight_noise import weight_noise

BATCHES_AHEAD = 1_000_003  # spreads the seeds of pools apart from those of their batches
STATISTICS_UTTERANCES = 1_000


class Trainer:
    """One process of a run. All processes hold the same weights and take the same steps."""

    def __init__(
        self,
        recipe: Recipe,
        corpora: Sequence[Corpus],
        output: Path,
        lexicon: Lexicon | None = None,
        device: str | None = None,
    ) -> None:
        """Start a run, or resume it from the last snapshot in `output`.

        Args:
            recipe: what to train.
            corpora: the recipe's.
            output: the run's folder.
            lexicon: of the words in the corpora, for a recipe that hears phones.
            device: where it computes: cpu, cuda or mps; CUDA where there is one if None.

        Raises:
            ValueError: a recipe that hears phones has no lexicon, or a run begun with another
                number of processes.
        """
        if recipe.hears_phones and lexicon is None:
            raise ValueError("expected a lexicon, of whose phones a stage has a loss, got none")
        self.recipe, self.output = recipe, output
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.processes = dist.get_world_size() if dist.is_initialized() else 1
        torch.manual_seed(recipe.seed)
        self.model = Recognizer(recipe.model)
        self.sampler = Sampler(
            corpora,
            [corpus.weight for corpus in recipe.corpora],
            recipe.model.vocabulary,
            int(recipe.batch_seconds * FRAMES_PER_SECOND),
            recipe.max_seconds,
            recipe.seed,
            self.processes,
            recipe.batch_utterances,
            [voices(one) for one in corpora] if by_speaker(recipe.model) else (),
            lexicon,
        )
        self.text = (
            TextSampler(recipe.text, recipe.model.vocabulary, recipe.seed) if recipe.text else None
        )
        set_statistics(self.model, corpora, self.sampler.weights)
        if recipe.start and not runstate.snapshots(output):
            begin_from(self.model, recipe.start, recipe.start_parts)
        self.device = device_of(device, self.rank)
        self.model.to(self.device)
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        freeze(self.model, recipe.frozen)
        self.phones: PhoneHead | None = None
        if recipe.hears_phones:
            self.phones = PhoneHead(recipe.model.encoder.width, recipe.phone_layer)
            self.phones.to(self.device)
        # The head comes last, so that the others' moments keep their places without it.
        self.learning = nn.ModuleList([self.model, *([self.phones] if self.phones else [])])
        learnt = [weight for weight in self.learning.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.Adam(learnt, 1e-3, (0.9, 0.999), 1e-6, weight_decay=recipe.l2)
        self.step, self.pool, self.place, self.seconds = 0, 0, 0, 0.0
        self._resume()

    def _modules(self) -> dict[str, nn.Module]:
        modules: dict[str, nn.Module] = {"model": self.model, "average": self.average}
        return modules | ({"phones": self.phones} if self.phones else {})

    def _resume(self) -> None:
        found = runstate.snapshots(self.output)
        if not found:
            return
        state = runstate.restore(found[-1], self._modules(), self.optimizer)
        if state["processes"] != self.processes:
            raise ValueError(
                f"expected {state['processes']} processes, with which {self.output} was begun, "
                f"got {self.processes}"
            )
        self.step, self.pool, self.place = state["step"], state["pool"], state["place"]
        self.seconds = state["seconds"]

    def _snapshot(self) -> None:
        average_buffers(self.model)
        average_buffers(self.average)
        if self.rank == 0:
            extra = {"pool": self.pool, "place": self.place, "seconds": self.seconds}
            runstate.save(
                self.output,
                self.step,
                self._modules(),
                self.optimizer,
                extra | {"processes": self.processes},
            )
            card = {"recipe": self.recipe.name, "steps": self.step}
            checkpoint.save(self.average, self.output / "checkpoint", card, half=True)

    def run(self, monitor: Monitor | None) -> None:
        """Take all steps that are left; `monitor` is the first process's."""
        first = 0
        for stage in self.recipe.stages:
            last = first + stage.steps
            if self.step < last:
                self._stage(stage, first, monitor)
            first = last
        self._snapshot()

    def _stage(self, stage: Stage, first: int, monitor: Monitor | None) -> None:
        self.model.train()
        if stage.frozen_norm:
            freeze_norm(self.model)
        set_dropout(self.model, stage.dropout)
        for batch in self._batches(stage):
            started = time.monotonic()
            rate = learning_rate(stage, self.step - first)
            now = replace(stage, noise=noise(stage, self.step - first))
            parts = self._update(batch, now, rate)
            self.step += 1
            self.seconds += time.monotonic() - started
            if monitor:
                audio = float(batch.lengths.sum()) / 25 * self.processes
                monitor.updated(stage, self.step, rate, parts, audio)
            if self.step % self.recipe.interval == 0:
                self._snapshot()
                if monitor:
                    monitor.validate(copy.deepcopy(self.average).cpu(), stage, self.step)
            if self.step >= first + stage.steps:
                return

    def _batches(self, stage: Stage) -> Iterator[Batch]:
        """Yield this process's batches from the run's position on, and move the position."""
        while True:
            views = 2 if stage.consistency else 1
            drawn = self.sampler.pool(
                self.pool, stage.augmentation, stage.weights, stage.max_seconds, views
            )
            usable = len(drawn) // self.processes * self.processes
            while self.place < usable:
                place = self.place + self.rank
                seed = self.pool * BATCHES_AHEAD + place
                batch = self.sampler.load(drawn[place], stage.augmentation, seed, views)
                self.place += self.processes
                yield to_device(batch, self.device)
            self.pool, self.place = self.pool + 1, 0

    def _update(self, batch: Batch, stage: Stage, rate: float) -> dict[str, float]:
        torch.manual_seed(self.recipe.seed + self.step * self.processes + self.rank)
        self.optimizer.zero_grad()
        with weight_noise(self.model, stage.weight_noise, self.recipe.seed + self.step):
            parts = self._losses(batch, stage)
            if stage.text and self.text:
                number = self.step * self.processes + self.rank
                parts["text"] = text_loss(
                    self.model, *to_device(self.text.batch(number), self.device)
                )
                parts["total"] = parts["total"] + stage.text * parts["text"]
            parts["total"].backward()
        average_gradients(self.learning, self.processes)
        norm = nn.utils.clip_grad_norm_(self.learning.parameters(), self.recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if math.isfinite(float(norm)):
            self.optimizer.step()
        decay = min(self.recipe.average, (1 + self.step) / (10 + self.step))
        update_average(self.average, self.model, decay)
        return {name: float(value.detach()) for name, value in parts.items()} | {
            "norm": float(norm)
        }

    def _losses(self, batch: Batch, stage: Stage) -> dict[str, Tensor]:
        if not (stage.phones and self.phones):
            return losses(self.model, batch, stage)
        with self.phones.listening(self.model) as heard:
            parts = losses(self.model, batch, stage)
        parts["phones"] = self.phones.loss(heard[0], batch)
        parts["total"] = parts["total"] + stage.phones * parts["phones"]
        return parts


def freeze_norm(model: nn.Module) -> None:
    """Let every batch norm use its running statistics, as in serving, and keep them.

    A batch of single words has other statistics than one of sentences. While the weights still move
    much, those of the batch serve better; in the end they only disagree with serving.
    """
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def set_dropout(model: nn.Module, share: float) -> None:
    """Let training leave out a share of what every recurrent layer of the encoder hears."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share


def average_gradients(model: nn.Module, processes: int) -> None:
    """Make every gradient the mean over the processes.

    A stage gives the same parameters gradients on every process. Those it leaves out keep none:
    with zeros, Adam would count their updates, and take its first real ones for late ones.
    """
    if processes == 1:
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= processes
    for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def average_buffers(model: nn.Module) -> None:
    """Make the batch norms' running statistics the mean over the processes."""
    if not dist.is_initialized():
        return
    for buffer in model.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Move the averaged weights and statistics a little towards the model's."""
    kept, new = average.state_dict(), model.state_dict()
    names = [name for name, value in kept.items() if value.is_floating_point()]
    torch._foreach_lerp_([kept[n] for n in names], [new[n] for n in names], 1 - decay)


def set_statistics(
    model: Recognizer, corpora: Sequence[Corpus], weights: Any, seed: int = 0
) -> None:
    """Set the features' mean and deviations from utterances drawn as in training."""
    rng = np.random.default_rng(seed)
    shares = np.array(weights) / sum(weights)
    frames = []
    for corpus in rng.choice(len(shares), STATISTICS_UTTERANCES, p=shares):
        frames.append(corpora[corpus].logmel(int(rng.integers(len(corpora[corpus])))))
    every = np.concatenate(frames)
    normalizer = model.features.normalizer
    normalizer.mean.copy_(torch.from_numpy(every.mean(0)))
    normalizer.deviation.copy_(torch.from_numpy(every.std(0)))
    if normalizer.spread is not None:
        normalizer.spread.fill_(1)
        heard = [normalizer(torch.from_numpy(one)[None])[0] for one in frames]
        normalizer.spread.copy_(torch.cat(heard).std(0))
