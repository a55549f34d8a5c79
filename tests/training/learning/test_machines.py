"""Training on several machines: two nodes of torchrun, each with an address of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cortado.tests.training.learning.test_trainer import (
    ROOT,
    STEPS,
    exit_codes,
    of_model,
    trainer,
    unused_port,
)
from cortado.tests.training.tiny import recipe
from cortado.training.data.batches import Batch
from cortado.training.data.log_mel_cache import cached
from cortado.training.learning import trainer as training
from cortado.training.learning.recipe import Recipe, Stage
from cortado.training.learning.snapshot import snapshots
from cortado.training.learning.trainer import Trainer

SCRIPT = """
import sys
from dataclasses import replace
from pathlib import Path
from cortado.tests.training.tiny import recipe
from cortado.training.learning.run import train

manifest, output = map(Path, sys.argv[1:])
train(replace(recipe(manifest), validation=()), output)
"""


def nodes(folder: Path, manifest: Path, *outputs: Path) -> list[tuple[int, str]]:
    """Run a node of torchrun for each output folder; return their exit codes and errors."""
    script, port = folder / "script.py", unused_port()
    script.write_text(SCRIPT)
    running = []
    for rank, output in enumerate(outputs):
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1"]
        command += ["--nnodes", str(len(outputs)), "--node-rank", str(rank)]
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
        torch.manual_seed(self.recipe.seed + self.step * 2 + 1)
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
    for code, log in nodes(tmp_path, manifest, output, output):
        assert code == 0, log
    state = json.loads((snapshots(output)[-1] / "state.json").read_text())
    assert (state["step"], state["processes"]) == (STEPS, 2)
    found = of_model(output)
    expected = alone(replace(recipe(manifest), validation=()), tmp_path, monkeypatch)
    for name, value in expected.items():
        torch.testing.assert_close(found[f"model/{name}"], value.detach(), rtol=1e-4, atol=1e-6)


def test_machines_that_do_not_share_the_run_s_folder_are_told_so(
    manifest: Path, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    begun = trainer(replace(recipe(manifest), validation=()), one)
    begun.step, begun.processes = 2, 2
    begun._snapshot()
    found = nodes(tmp_path, manifest, one, other)
    assert [code for code, _ in found] == [1, 1]
    for _, log in found:
        assert "on all machines, got snapshots of 2, 0 updates" in log
