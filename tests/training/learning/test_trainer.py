"""Runs that are killed and resumed, and how processes share batches, on a corpus of tones."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from cortado.model import checkpoint, checkpoint_reader
from cortado.model.config import FeatureConfig
from cortado.model.features.speaker import MIN_DEVIATION
from cortado.model.recognizer import Recognizer
from cortado.tests.training.recorded import rows_of, write_corpus
from cortado.tests.training.tiny import MODEL, PLAIN, recipe
from cortado.training.data.augment import Augmentation
from cortado.training.data.batches import Batch, Drawn, Sampler
from cortado.training.data.log_mel_cache import cached
from cortado.training.learning import trainer as training
from cortado.training.learning.monitor import Monitor
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.resumption import last_state, standing
from cortado.training.learning.run import train
from cortado.training.learning.snapshot import save, snapshots
from cortado.training.learning.stage import Stage
from cortado.training.learning.start import set_statistics
from cortado.training.learning.trainer import Trainer, update_average

STEPS = 7  # of the whole run


class Killed(Exception):
    pass


class Killer(Monitor):
    """Kills the run after an update."""

    def __init__(self, step: int) -> None:
        self.last = step

    def updated(
        self, stage: Stage, step: int, rate: float, parts: dict[str, float], audio: float
    ) -> None:
        assert all(math.isfinite(value) for value in parts.values())
        if step == self.last:
            raise Killed

    def validate(self, model: Recognizer, stage: Stage, step: int) -> dict[str, float]:
        return {}


def trainer(wanted: Recipe, output: Path) -> Trainer:
    manifest = wanted.corpora[0].manifest
    return Trainer(wanted, [cached(manifest, manifest.parent / "cache")], output)


@pytest.fixture(scope="module")
def uninterrupted(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("uninterrupted")
    trainer(recipe(manifest), output).run(None)
    return output


def tensors(output: Path) -> dict[str, Tensor]:
    """What the last snapshot of a run holds."""
    return load_file(snapshots(output)[-1] / "tensors.safetensors")


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def course(run: Trainer, stage: Stage, name: str) -> list[float]:
    """The loss of that name in each of 40 updates."""
    run.model.train()
    found = []
    for _, batch in zip(range(40), run._batches(stage), strict=False):
        found.append(run._update(batch, stage, 1e-2)[name])
        run.step += 1
    return found


@pytest.mark.parametrize("kills", [[1], [2], [3], [5], [3, 6]])
def test_a_run_killed_and_resumed_is_the_uninterrupted_one_bit_for_bit(
    manifest: Path, uninterrupted: Path, tmp_path: Path, kills: list[int]
) -> None:
    for step in kills:
        with pytest.raises(Killed):
            trainer(recipe(manifest), tmp_path).run(Killer(step))
    trainer(recipe(manifest), tmp_path).run(None)
    assert snapshots(tmp_path)[-1].name == f"snapshot-{STEPS:08d}"
    assert equal(tensors(tmp_path), tensors(uninterrupted))
    weights = "checkpoint/model.safetensors"
    assert (tmp_path / weights).read_bytes() == (uninterrupted / weights).read_bytes()


def test_a_run_that_is_done_has_nothing_left_to_do(manifest: Path, uninterrupted: Path) -> None:
    before = tensors(uninterrupted)
    trainer(recipe(manifest), uninterrupted).run(Killer(STEPS + 1))
    assert equal(tensors(uninterrupted), before)


def test_a_longer_recipe_goes_on_where_the_shorter_one_ended(
    manifest: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    whole = recipe(manifest)
    trainer(replace(whole, stages=whole.stages[:1]), tmp_path).run(None)
    trainer(whole, tmp_path).run(None)
    assert equal(tensors(tmp_path), tensors(uninterrupted))


def test_the_checkpoint_is_the_averaged_model(uninterrupted: Path) -> None:
    loaded = checkpoint.load(uninterrupted / "checkpoint").state_dict()
    kept = tensors(uninterrupted)
    for name, value in loaded.items():  # of which matrices are kept in 16 bits
        torch.testing.assert_close(value, kept[f"average/{name}"], rtol=1e-3, atol=1e-6)
    assert not torch.equal(kept["average/ctc.weight"], kept["model/ctc.weight"])
    assert checkpoint_reader.read_card(uninterrupted / "checkpoint")["card"]["steps"] == STEPS


def test_a_run_begun_with_other_processes_is_refused(manifest: Path, tmp_path: Path) -> None:
    wanted = recipe(manifest)
    trainer(replace(wanted, stages=wanted.stages[:1]), tmp_path).run(None)
    path = snapshots(tmp_path)[-1] / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"processes": 2}))
    with pytest.raises(ValueError, match=r"expected as many processes .* with, 2, got 1"):
        trainer(wanted, tmp_path)


def test_a_run_of_a_text_task_is_refused(manifest: Path, tmp_path: Path) -> None:
    save(tmp_path, 2, {}, {}, {"seconds": 1.5})  # as training/text/train.py does
    with pytest.raises(ValueError, match=r"expected a run of a recogniser in .*, got one of a te"):
        trainer(recipe(manifest), tmp_path)


def test_a_run_begun_with_another_model_is_refused(uninterrupted: Path, manifest: Path) -> None:
    wanted = recipe(manifest)
    wider = replace(wanted.model, encoder=replace(wanted.model.encoder, width=12))
    message = r"expected model.encoder.width 8, with which .* was begun, got 12; with another --out"
    with pytest.raises(ValueError, match=message):
        trainer(replace(wanted, model=wider), uninterrupted)
    searched = replace(wanted.model, decoder=replace(wanted.model.decoder, ctc_weight=0.3))
    assert trainer(replace(wanted, model=searched), uninterrupted).step == STEPS


def test_a_run_begun_with_other_weights_to_train_is_refused(
    uninterrupted: Path, manifest: Path
) -> None:
    wanted = recipe(manifest)
    for change, told in (({"frozen": ("ctc",)}, "frozen"), ({"optimizer": "muon"}, "optimizer")):
        with pytest.raises(ValueError, match=f"expected {told} .*, with which .* was begun, got"):
            trainer(replace(wanted, **change), uninterrupted)


def test_a_run_says_how_far_it_is_and_what_has_changed_since(
    uninterrupted: Path, manifest: Path, tmp_path: Path
) -> None:
    wanted = recipe(manifest)
    first, second = wanted.stages
    assert standing(tmp_path, wanted, None) == f"{tmp_path}: begins, {STEPS} updates"
    state = last_state(uninterrupted, wanted, 1)
    assert standing(uninterrupted, wanted, state).endswith(f"is complete after {STEPS} updates")
    longer = replace(wanted, seed=5, stages=(first, replace(second, steps=9)))
    assert standing(uninterrupted, longer, state).endswith(
        f"goes on after {STEPS} of 12 updates; changed since its last snapshot: "
        "stages[1].steps 4 -> 9, seed 0 -> 5"
    )
    shorter = replace(wanted, stages=(first,))
    assert standing(uninterrupted, shorter, state).endswith("number of stages 2 -> 1")


def test_training_lowers_the_loss(manifest: Path, tmp_path: Path) -> None:
    stage = Stage("encoder", 40, ctc=1.0, learning_rate=1e-2, augmentation=PLAIN)
    run = trainer(replace(recipe(manifest), stages=(stage,), interval=1000), tmp_path)
    found = course(run, stage, "ctc")
    assert sum(found[-5:]) < 0.6 * sum(found[:5])


def test_an_update_without_a_finite_gradient_changes_no_weight(
    manifest: Path, tmp_path: Path
) -> None:
    run = trainer(recipe(manifest), tmp_path)
    stage = run.recipe.stages[0]
    before = {name: value.clone() for name, value in run.model.named_parameters()}
    handle = run.model.ctc.bias.register_hook(lambda grad: grad * math.inf)
    run._update(next(run._batches(stage)), stage, 1e-2)
    assert all(torch.equal(value, before[name]) for name, value in run.model.named_parameters())
    handle.remove()
    run._update(next(run._batches(stage)), stage, 1e-2)
    assert not torch.equal(run.model.ctc.bias, before["ctc.bias"])


def test_weights_that_no_checkpoint_could_hold_end_the_run_and_are_not_written(
    manifest: Path, tmp_path: Path
) -> None:
    run = trainer(recipe(manifest), tmp_path)
    with torch.no_grad():
        run.average.ctc.weight[0, 0] = 1e6  # a number, but none of 16 bits
    with pytest.raises(
        ValueError, match=r"finite weights after 0 updates, got others in ctc\.weight"
    ):
        run._save(run.recipe.stages[0], None)
    assert not snapshots(tmp_path)
    assert not (tmp_path / "checkpoint").exists()


def test_weights_stops_processes_and_runs_have_noise_of_their_own(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trainer(recipe(manifest), tmp_path)
    stage = replace(run.recipe.stages[1], weight_noise=0.1)
    batch, drawn = next(run._batches(stage)), list[Tensor]()

    def kept(draw: Callable[..., Tensor], *of: Any, **how: Any) -> Tensor:
        drawn.append(draw(*of, **how))
        return drawn[-1]

    for name in ("randn", "randn_like"):
        monkeypatch.setattr(torch, name, partial(kept, getattr(torch, name)))
    for seed, run.step, run.rank in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)):
        run.recipe = replace(run.recipe, seed=seed)
        # all processes have the same noise on weights
        run._update(batch, replace(stage, weight_noise=0.1 * (run.rank == 0)), 0.0)
    numbers = torch.cat([one.flatten() for one in drawn])
    assert len(numbers.unique()) > 0.99 * len(numbers)


@dataclass(frozen=True)
class Noting(Sampler):
    """Notes which utterances were loaded, with which seed."""

    noted: list[tuple[tuple[Drawn, ...], int]] = field(default_factory=list)

    def load(
        self, drawn: Sequence[Drawn], config: Augmentation, seed: int, views: int = 1
    ) -> Batch:
        self.noted.append((tuple(drawn), seed))
        return super().load(drawn, config, seed, views)


def test_two_processes_share_a_pool_s_batches_out(manifest: Path, tmp_path: Path) -> None:
    taken = []
    for rank in range(2):
        run = trainer(recipe(manifest), tmp_path)
        run.rank, run.processes = rank, 2
        run.sampler = Noting(**vars(run.sampler))
        pool = run.sampler.pool(0, PLAIN)
        batches = run._batches(replace(run.recipe.stages[0], augmentation=PLAIN))
        for _ in range(len(pool) // 2):
            next(batches)
        assert run.pool == 0
        taken.append(run.sampler.noted)
    drawn = [one for noted in zip(*taken, strict=True) for one, _ in noted]
    assert drawn == [tuple(batch) for batch in pool[: len(drawn)]]
    seeds = [seed for noted in taken for _, seed in noted]
    assert len(set(seeds)) == len(seeds)


def test_processes_freeze_the_same_statistics(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "average_buffers", lambda model: model.encoder.apply(as_ones))
    run = trainer(replace(recipe(manifest), interval=9), tmp_path)
    free = run.recipe.stages[0]
    run._stage(replace(free, steps=1), 0, None)
    norm = run.model.encoder.conv1.norm
    assert not norm.running_var.eq(1).all()
    run._stage(replace(free, steps=1, frozen_norm=True), 1, None)
    assert norm.running_var.eq(1).all()


def as_ones(module: nn.Module) -> None:
    """Set a batch norm's statistics to what stands for the mean over processes here."""
    if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_var is not None:
        module.running_var.fill_(1)


def test_the_command_s_run_leaves_a_checkpoint_scores_and_curves(
    manifest: Path, tmp_path: Path
) -> None:
    told: list[tuple[Any, ...]] = []
    folder = train(recipe(manifest), tmp_path, progress=lambda *what: told.append(what))
    assert checkpoint.load(folder).config == MODEL
    scores = rows_of(tmp_path / "validation.jsonl")
    assert {row["step"] for row in scores} == {2, 4, 6}
    assert scores[-1]["set"].endswith("/train/online")
    assert list((tmp_path / "tensorboard").iterdir())
    assert ("features " + f"{manifest.parent.name}/train", 6, 6) in told


def test_the_average_moves_by_its_decay_and_counts_are_left() -> None:
    torch.manual_seed(0)
    average, model = Recognizer(MODEL), Recognizer(MODEL)
    kept, new = average.ctc.weight.detach().clone(), model.ctc.weight.detach()
    update_average(average, model, 0.9)
    torch.testing.assert_close(average.ctc.weight.detach(), 0.9 * kept + 0.1 * new)


def test_the_statistics_are_those_of_what_is_drawn(manifest: Path) -> None:
    torch.manual_seed(0)
    model = Recognizer(MODEL)
    tones = cached(manifest, manifest.parent / "cache")
    set_statistics(model, [tones], [1.0])
    normalizer = model.features.normalizer
    frames = torch.cat([torch.from_numpy(tones.logmel(k)) for k in range(len(tones))])
    assert (normalizer.mean - frames.mean(0)).abs().max() < 0.8
    assert (normalizer.deviation > 0).all()


@pytest.mark.parametrize("normalisation", ["running", "fixed"])
def test_statistics_of_what_does_not_change_are_exact_and_nothing_is_divided_by(
    normalisation: Literal["running", "fixed"], tmp_path: Path
) -> None:
    silence = write_corpus(tmp_path, [(np.zeros(16_000, np.float32), "no")], "train")
    tones = cached(silence, tmp_path / "cache")
    model = Recognizer(replace(MODEL, features=FeatureConfig(normalisation)))
    set_statistics(model, [tones], [1.0])
    normalizer = model.features.normalizer
    assert torch.equal(normalizer.mean, torch.from_numpy(tones.logmel(0)[0]))
    assert (normalizer.deviation == MIN_DEVIATION).all()
    assert model.features(torch.zeros(1, 16_000)).abs().max() < 10
