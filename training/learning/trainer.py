"""The training run: stages of a recipe, snapshots, validation; any number of processes."""

import copy
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from itertools import count as numbers_from
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cortado.model import checkpoint
from cortado.model.features.framing import HOP, STEP_SECONDS
from cortado.model.recognizer import Recognizer
from cortado.model.search.source_model import FILE as SOURCE
from cortado.training.data.batches import FRAMES_PER_SECOND, Batch, Sampler
from cortado.training.data.loader import Job, loaded, loaders_beside
from cortado.training.data.log_mel_cache import CachedCorpus
from cortado.training.data.speakers import speaker_statistics
from cortado.training.data.text_sampler import TextSampler
from cortado.training.data.tied_states import States
from cortado.training.language import source_model
from cortado.training.learning import snapshot as runstate
from cortado.training.learning.device import device_of, to_device
from cortado.training.learning.losses import add, encode, losses, text_loss
from cortado.training.learning.monitor import Monitor
from cortado.training.learning.optimizers import optimizers
from cortado.training.learning.processes import average_buffers, average_gradients
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.resumption import as_json, last_state
from cortado.training.learning.schedule import learning_rate
from cortado.training.learning.stage import Stage
from cortado.training.learning.start import begin_from, freeze, initialise, set_statistics
from cortado.training.learning.state_loss import PhoneLosses
from cortado.training.learning.weight_noise import weight_noise

SEEDS_PER_POOL = 1_000_003  # far more than a pool has batches, each of which has one


class Trainer:
    """One process of a run. All processes hold the same weights and take the same steps."""

    def __init__(
        self,
        recipe: Recipe,
        corpora: Sequence[CachedCorpus],
        output: Path,
        states: Sequence[States] = (),
        device: str | None = None,
        phones_of_states: Sequence[int] = (),
    ) -> None:
        """Start a run, or resume it from the last snapshot in `output`.

        Args:
            recipe: what to train.
            corpora: the recipe's.
            output: the run's folder.
            states: tied states of each corpus' frames, for a recipe that learns them.
            device: where it computes: cpu, cuda or mps; CUDA where there is one if None.
            phones_of_states: the output of the recogniser's phone head for each tied state.

        Raises:
            ValueError: a recipe that learns states has none, or a run begun with another number
                of processes or another model.
        """
        if recipe.learns_states and not states:
            raise ValueError("expected the tied states of each corpus' frames, got none")
        self.recipe, self.output = recipe, output
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.processes = dist.get_world_size() if dist.is_initialized() else 1
        torch.manual_seed(recipe.seed)
        self.model = Recognizer(recipe.model)
        initialise(self.model, recipe.initialisation)
        self.sampler = Sampler(
            corpora,
            weights=[corpus.weight for corpus in recipe.corpora],
            vocabulary=recipe.model.vocabulary,
            batch_frames=int(recipe.batch_seconds * FRAMES_PER_SECOND),
            max_seconds=recipe.max_seconds,
            seed=recipe.seed,
            processes=self.processes,
            max_utterances=recipe.batch_utterances,
            speakers=[
                speaker_statistics(one) for one in corpora if recipe.model.features.by_speaker
            ],
            states=states if recipe.learns_states else (),
            lookahead=self.model.lookahead // HOP,
            phone_delay=recipe.phone_delay,
        )
        self.text = (
            TextSampler(recipe.text, recipe.model.vocabulary, recipe.seed) if recipe.text else None
        )
        set_statistics(self.model, corpora, self.sampler.weights)
        if recipe.start and not runstate.snapshots(output):
            begin_from(self.model, recipe.start, recipe.start_parts, recipe.widen, recipe.shrink)
        self.device = device_of(device, self.rank)
        if self.device.type == "cuda":  # Triton's kernels run on the current one
            torch.cuda.set_device(self.device)
        self.loaders = loaders_beside(self.device.type, self.processes)
        self.model.to(self.device)
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        freeze(self.model, recipe.frozen)
        self.phones: PhoneLosses | None = None
        if recipe.learns_states:
            self.phones = PhoneLosses(recipe, states, phones_of_states, self.device)
        # The head comes last, so that the others' moments keep their places without it.
        self.trained = nn.ModuleList([self.model, *([self.phones.head] if self.phones else [])])
        self.optimizers = optimizers(self.trained, recipe)
        self.step, self.pool, self.place, self.seconds = 0, 0, 0, 0.0
        self.best: float | None = None  # error rate of the checkpoint, where the best is kept
        self._resume()
        self._check_others()

    def _modules(self) -> dict[str, nn.Module]:
        modules: dict[str, nn.Module] = {"model": self.model, "average": self.average}
        return modules | ({"states": self.phones.head} if self.phones else {})

    def _resume(self) -> None:
        state = last_state(self.output, self.recipe, self.processes)
        if state is None:
            return
        runstate.restore(runstate.snapshots(self.output)[-1], self._modules(), self.optimizers)
        self.step, self.pool, self.place = state["step"], state["pool"], state["place"]
        self.seconds, self.best = state["seconds"], state.get("best")

    def _check_others(self) -> None:
        """Check that all processes go on from one snapshot.

        Raises:
            ValueError: they do not, because machines do not share the run's folder.
        """
        if self.processes == 1:
            return
        steps: list[int] = [0] * self.processes
        dist.all_gather_object(steps, self.step)
        if len(set(steps)) > 1:
            raise ValueError(
                f"expected one folder {self.output} on all machines, "
                f"got snapshots of {', '.join(map(str, steps))} updates"
            )

    def _save(self, stage: Stage, monitor: Monitor | None) -> None:
        """Take a snapshot, write the checkpoint, and validate.

        Where the best checkpoint is kept, the snapshot comes last: a run that is killed before it
        takes the same updates and the same decision again.
        """
        average_buffers(self.model)
        average_buffers(self.average)
        self._check_finite()
        if self.recipe.best is None:
            self._snapshot()
            self._checkpoint()
        rates = {}
        if monitor:
            rates = monitor.validate(copy.deepcopy(self.average).cpu(), stage, self.step)
        if self.recipe.best is not None:
            self._keep_best(rates.get(self.recipe.best))
            self._snapshot()

    def _check_finite(self) -> None:
        """Check that the checkpoint could be loaded, before it takes the place of a good one.

        Raises: ValueError where weights are infinite or no numbers, as after too high a rate.
        """
        for name, value in checkpoint.stored(self.average, bits=16).items():
            if not value.isfinite().all():
                raise ValueError(
                    f"expected finite weights after {self.step} updates, got others in {name}: a "
                    f"lower learning_rate may help; {self.output} stays as it was"
                )

    def _keep_best(self, rate: float | None) -> None:
        """Write the checkpoint if its rate is the best so far, or as long as none has one."""
        better = rate is not None and (self.best is None or rate < self.best)
        if better or self.best is None:
            self.best = rate
            self._checkpoint()

    def _snapshot(self) -> None:
        if self.rank == 0:
            extra = {
                "pool": self.pool,
                "place": self.place,
                "seconds": self.seconds,
                "processes": self.processes,
                "best": self.best,
                "recipe": as_json(self.recipe),
            }
            runstate.save(self.output, self.step, self._modules(), self.optimizers, extra)

    def _checkpoint(self) -> None:
        if self.rank == 0:
            card: dict[str, Any] = {"recipe": self.recipe.name, "steps": self.step}
            if self.recipe.description:
                card["description"] = self.recipe.description
            if self.recipe.best and self.best is not None:
                card["validation"] = {self.recipe.best: self.best}
            checkpoint.save(self.average, self.output / "checkpoint", card, bits=16)
            self._write_source()

    def _write_source(self) -> None:
        """Write the language model of letters that the decoder has learnt, for the search.

        A decoder that began as another keeps that one's: it had the more to learn from.
        """
        path, symbols = self.output / "checkpoint" / SOURCE, self.recipe.model.vocabulary.names
        if " " not in symbols or path.exists():
            return
        start = self.recipe.start
        if start and "decoder" in self.recipe.start_parts and (start / SOURCE).exists():
            shutil.copyfile(start / SOURCE, path)
        else:
            texts = (one.text for corpus in self.sampler.corpora for one in corpus.utterances)
            source_model.write(path, source_model.estimate(texts, symbols))

    def run(self, monitor: Monitor | None) -> None:
        """Take all steps that are left; `monitor` is the first process's."""
        first = 0
        for stage in self.recipe.stages:
            last = first + stage.steps
            if self.step < last:
                self._stage(stage, first, monitor)
            first = last
        if self.recipe.best is None:
            self._save(self.recipe.stages[-1], None)
        elif self.step % self.recipe.interval:
            self._save(self.recipe.stages[-1], monitor)

    def _stage(self, stage: Stage, first: int, monitor: Monitor | None) -> None:
        self.model.train()
        if stage.frozen_norm:
            average_buffers(self.model)  # else each process would keep its own to the end
            freeze_norm(self.model)
        set_dropout(self.model, stage.dropout)
        for batch in self._batches(stage):
            started = time.monotonic()
            rate = learning_rate(stage, self.step - first)
            parts = self._update(batch, stage, rate)
            self.step += 1
            self.seconds += time.monotonic() - started
            if monitor:
                audio = float(batch.lengths.sum()) * STEP_SECONDS * self.processes
                monitor.updated(stage, self.step, rate, parts, audio)
            if self.step % self.recipe.interval == 0:
                self._save(stage, monitor)
            if self.step >= first + stage.steps:
                return

    def _batches(self, stage: Stage) -> Iterator[Batch]:
        """Yield this process's batches from the run's position on, and move the position."""
        on_gpu = self.device.type == "cuda"
        for one in loaded(self.sampler, self._jobs(stage), self.loaders, on_gpu):
            self.pool, self.place = one.pool, one.place + self.processes
            yield to_device(one.batch, self.device)

    def _jobs(self, stage: Stage) -> Iterator[Job]:
        """Yield what this process' batches are loaded from, from the run's position on."""
        views = 2 if stage.consistency else 1
        first = self.place
        for pool in numbers_from(self.pool):
            drawn = self.sampler.pool(pool, stage.augmentation, stage.max_seconds, views)
            usable = len(drawn) // self.processes * self.processes
            for place in range(first, usable, self.processes):
                own = place + self.rank
                seed = pool * SEEDS_PER_POOL + own
                yield Job(pool, place, drawn[own], stage.augmentation, seed, views)
            first = 0

    def _update(self, batch: Batch, stage: Stage, rate: float) -> dict[str, float]:
        # Hashed: seeds in a row would give runs, processes and weights one another's noise.
        torch.manual_seed(hash((self.recipe.seed, self.step, self.rank)))
        self.trained.zero_grad()
        seed = hash((self.recipe.seed, self.step))  # the same in every process
        with weight_noise(self.model, stage.weight_noise, seed, stage.weight_noise_on):
            parts = self._losses(batch, stage)
            if stage.text and self.text:
                text = self.text.batch(self.step * self.processes + self.rank)
                loss = text_loss(self.model, *to_device(text, self.device))
                add(parts, "text", stage.text, loss)
            parts["total"].backward()
        average_gradients(self.trained, self.processes)
        norm = nn.utils.clip_grad_norm_(self.trained.parameters(), self.recipe.clip)
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = rate
            if math.isfinite(float(norm)):
                optimizer.step()
        decay = min(self.recipe.average, (1 + self.step) / (10 + self.step))
        update_average(self.average, self.model, decay)
        return {name: float(value.detach()) for name, value in parts.items()} | {
            "norm": float(norm)
        }

    def _losses(self, batch: Batch, stage: Stage) -> dict[str, Tensor]:
        encoded = encode(self.model, batch)
        parts = losses(self.model, batch, stage, encoded)
        if self.phones and batch.states is not None:
            self.phones.add_to(parts, self.model.phones, batch.states, stage, encoded)
        return parts


def freeze_norm(model: nn.Module) -> None:
    """Let every batch norm use its running statistics, as in serving, and keep them.

    A batch of single words has other statistics than one of sentences. While the weights still move
    much, the batch's own statistics are better; at the end they only differ from those in serving.
    """
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def set_dropout(model: nn.Module, share: float) -> None:
    """Set the share of the inputs that each recurrent layer of the encoder drops in training."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Move the averaged weights and statistics a little towards the model's."""
    old, new = average.state_dict(), model.state_dict()
    names = [name for name, value in old.items() if value.is_floating_point()]
    torch._foreach_lerp_([old[n] for n in names], [new[n] for n in names], 1 - decay)
