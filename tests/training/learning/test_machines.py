"""Training on several machines: two nodes of torchrun, each with an address of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import Tensor

from cortado.tests.ports import unused_port
from cortado.tests.training.learning.test_trainer import STEPS, equal, tensors, trainer
from cortado.tests.training.tiny import recipe
from cortado.training.data.batches import Batch
from cortado.training.data.log_mel_cache import cached
from cortado.training.learning import trainer as training
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.snapshot import snapshots
from cortado.training.learning.stage import Stage
from cortado.training.learning.trainer import Trainer

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from pathlib import Path
import torch
import torch.distributed as dist
from safetensors.torch import save_file
import cortado.training.learning.run as training_run
from cortado.tests.training.learning.test_machines import shared_run
from cortado.training.learning.processes import average_gradients
from cortado.training.learning.trainer import Trainer

class Kept(Trainer):
    def run(self, monitor):
        super().run(monitor)
        save_file(self.model.state_dict(), self.output / f"rank-{self.rank}.safetensors")
        head = torch.nn.Linear(2, 2)  # whose targets only one process's batch has
        if self.rank == 0:
            head.weight.grad = torch.ones(2, 2)
        average_gradients(head, self.processes)
        assert head.weight.grad.eq(0.5).all() and head.bias.grad is None

training_run.Trainer = Kept
manifest, output = map(Path, sys.argv[1:])
training_run.train(shared_run(manifest), output)
"""


def shared_run(manifest: Path) -> Recipe:
    """The tiny run with Muon, whose work processes share out; no validation, which one does."""
    return replace(recipe(manifest), validation=(), optimizer="muon")


def exit_codes(running: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """Return how processes ended; whatever happens, none is left."""
    try:
        return [process.wait() for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def nodes(folder: Path, manifest: Path, output: Path) -> list[tuple[int, str]]:
    """Run two nodes of torchrun; return their exit codes and errors."""
    script, port = folder / "script.py", unused_port()
    script.write_text(SCRIPT)
    running = []
    for rank in range(2):
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1"]
        command += ["--nnodes", "2", "--node-rank", str(rank)]
        command += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
        command += ["--local-addr", f"127.0.0.{1 + rank}"]
        with (folder / f"{rank}.log").open("w") as log:
            running.append(
                subprocess.Popen(
                    [*command, str(script), str(manifest), str(output)],
                    cwd=ROOT,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    stdout=log,
                    stderr=log,
                )
            )
    codes = enumerate(exit_codes(running))
    return [(code, (folder / f"{rank}.log").read_text()) for rank, code in codes]


class OfBoth(Trainer):
    """One process whose updates rest on the batches that two processes would have."""

    def share(self, other: Trainer) -> None:
        """Take the batches of both places; `other` holds the second."""
        self._other = other
        for rank, run in enumerate((self, other)):
            run.rank, run.processes = rank, 2
            run.sampler = replace(run.sampler, processes=2)

    def _batches(self, stage: Stage) -> Iterator[Batch]:
        both = zip(super()._batches(stage), self._other._batches(stage), strict=True)
        for mine, self._theirs in both:
            self._now = stage
            yield mine

    def _update(self, batch: Batch, stage: Stage, rate: float) -> dict[str, float]:
        self._now = stage
        return super()._update(batch, stage, rate)

    def add_the_other_s(self) -> None:
        """Make the gradients the mean of both batches'."""
        mine = [one.grad for one in self.trained.parameters()]
        torch.manual_seed(hash((self.recipe.seed, self.step, 1)))
        self.trained.zero_grad()
        self._losses(self._theirs, self._now)["total"].backward()
        for one, before in zip(self.trained.parameters(), mine, strict=True):
            if one.grad is not None and before is not None:
                one.grad = (one.grad + before) / 2


def alone(wanted: Recipe, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Tensor]:
    """Return the weights that one process has after taking all batches itself."""
    manifest = wanted.corpora[0].manifest
    run = OfBoth(wanted, [cached(manifest, manifest.parent / "cache")], folder / "alone")
    run.share(trainer(wanted, folder / "other"))
    monkeypatch.setattr(training, "average_gradients", lambda *_: run.add_the_other_s())
    monkeypatch.setattr(training, "average_buffers", lambda _: None)
    run.run(None)
    return dict(run.model.named_parameters())


def test_two_machines_train_as_one_process_with_all_their_batches(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "shared"
    for code, log in nodes(tmp_path, manifest, output):
        assert code == 0, log
    state = json.loads((snapshots(output)[-1] / "state.json").read_text())
    assert (state["step"], state["processes"]) == (STEPS, 2)
    one, other = (load_file(output / f"rank-{rank}.safetensors") for rank in range(2))
    assert equal(one, other)
    kept = tensors(output)
    assert all(torch.equal(kept[f"model/{name}"], value) for name, value in one.items())
    counts = {int(kept[name]) for name in kept if name.endswith("/step")}
    assert counts == {4, STEPS}  # the decoder's begin with the stage that trains it
    for name, value in alone(shared_run(manifest), tmp_path, monkeypatch).items():
        # an update is 1e-3; sums in another order move it most where a gradient cancels
        torch.testing.assert_close(one[name], value.detach(), rtol=1e-4, atol=1e-5)


def test_machines_that_do_not_share_the_run_s_folder_are_told_so(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = shared_run(manifest)
    begun = trainer(wanted, tmp_path)
    begun.step, begun.processes = 2, 2
    begun._snapshot()

    def other_has_none(steps: list[Any], own: int) -> None:
        steps[:] = [own, 0]

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_gather_object", other_has_none)
    with pytest.raises(ValueError, match=r"on all machines, got snapshots of 2, 0 updates"):
        trainer(wanted, tmp_path)
