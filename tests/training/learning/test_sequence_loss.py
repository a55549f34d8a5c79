"""The sequence criterion of phones against sums over all paths that are written out."""

from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.tests.training.learning.test_trainer import Killed, Killer, equal, tensors
from cortado.tests.training.tiny import MODEL, PLAIN, corpus, letters_as_states, recipe
from cortado.training.data.log_mel_cache import cached
from cortado.training.data.tied_states import UNKNOWN
from cortado.training.learning.path_sums import CompiledLogSum
from cortado.training.learning.sequence_loss import (
    TOLERANCE,
    LogSum,
    log_sum,
    near,
    phone_trigram,
    sequence_loss,
)
from cortado.training.learning.stage import Stage
from cortado.training.learning.trainer import Trainer

PHONE_COUNT, FRAMES = 3, 5


@pytest.fixture
def trigram() -> Tensor:
    rng = np.random.default_rng(0)
    paths = [rng.integers(PHONE_COUNT, size=40) for _ in range(3)]
    return torch.from_numpy(phone_trigram(paths, PHONE_COUNT)).double()


def scores(rows: int = 1) -> Tensor:
    return torch.randn(rows, FRAMES, PHONE_COUNT, dtype=torch.float64, generator=seeded())


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def path_sum(row: Tensor, trigram: Tensor) -> Tensor:
    """The log of the sum over every path of one utterance's (T, P), each with its phones' prior."""
    start = trigram.sum(0) / trigram.sum()  # of a first phone behind another
    paths = []
    for path in product(range(PHONE_COUNT), repeat=len(row)):
        heard = row[range(len(row)), list(path)].sum()
        said = [phone for phone, _ in groupby(path)]
        for first in range(PHONE_COUNT):  # what was said before the first frame
            for second in range(PHONE_COUNT):
                lasts = second == said[0]
                ways = [(start[first, second], said[1:])] if lasts else []
                if trigram[first, second, said[0]] > 0:
                    ways.append((start[first, second], said))
                for prior, rest in ways:
                    before, last = first, second
                    for phone in rest:
                        prior = prior * trigram[before, last, phone]
                        before, last = last, phone
                    paths.append(heard + prior.log())
    return torch.stack(paths).logsumexp(0)


def test_a_trigram_is_a_distribution_of_other_phones(trigram: Tensor) -> None:
    torch.testing.assert_close(trigram.sum(2), torch.ones(PHONE_COUNT, PHONE_COUNT).double())
    assert (trigram.diagonal(dim1=1, dim2=2) == 0).all()
    certain = phone_trigram([np.array([0, 0, 1, 1, 2] * 1000)], PHONE_COUNT)
    assert certain[0, 1, 2] > 0.99
    assert certain[2, 1, 0] > 0  # which was never said


def test_the_sum_is_that_over_all_paths(trigram: Tensor) -> None:
    given = scores(2)
    known = torch.ones(2, FRAMES, dtype=torch.bool)
    expected = torch.stack([path_sum(row, trigram) for row in given])
    torch.testing.assert_close(log_sum(given, known, trigram), expected)


def test_compiled_sums_are_those_of_tensors(trigram: Tensor) -> None:
    given = scores(3)
    given[1, 2, 0] = given[2, 1:, :2] = -torch.inf  # phones that cannot be said
    known = torch.ones(3, FRAMES, dtype=torch.bool)
    known[0, :2] = known[2, 4] = False
    found = []
    for sums in (LogSum, CompiledLogSum):
        one = given.clone().requires_grad_()
        total = sums.apply(one, known, trigram)  # type: ignore[no-untyped-call]
        found.append((total, *torch.autograd.grad(total @ torch.arange(3.0).double(), one)))
    for tensor, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, tensor)


def test_frames_that_nobody_aligned_do_not_count(trigram: Tensor) -> None:
    given = scores()
    known = torch.tensor([[False, True, True, True, False]])
    found = log_sum(given, known, trigram)
    torch.testing.assert_close(found[0], path_sum(given[0, 1:4], trigram))


def test_the_gradient_is_that_of_the_paths(trigram: Tensor) -> None:
    given = scores().requires_grad_()
    known = torch.ones(1, FRAMES, dtype=torch.bool)
    (found,) = torch.autograd.grad(log_sum(given, known, trigram).sum(), given)
    (expected,) = torch.autograd.grad(path_sum(given[0], trigram), given)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found.sum(2), torch.ones_like(found.sum(2)))


def test_the_loss_compares_all_paths_with_those_near_the_aligners(trigram: Tensor) -> None:
    torch.manual_seed(0)
    head, encoded = nn.Linear(4, PHONE_COUNT).double(), torch.randn(1, FRAMES, 4).double()
    targets = torch.tensor([[UNKNOWN, 0, 0, 1, 1]])
    row = head(encoded)[0, 1:]
    allowed = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 1, 0]], dtype=torch.bool)
    said = path_sum(row.masked_fill(~allowed, -1e9), trigram)
    found = sequence_loss(head, encoded, targets, trigram)
    expected = (path_sum(row, trigram) - said) / 4
    torch.testing.assert_close(found, expected)
    assert found > 0
    assert sequence_loss(head, encoded, torch.full((1, FRAMES), UNKNOWN), trigram) == 0


def test_a_phone_may_be_said_a_little_sooner_or_later() -> None:
    found = near(torch.tensor([[UNKNOWN, 2, 2, 0, 0, 0]]), PHONE_COUNT)
    assert TOLERANCE == 1
    assert found[0, :, 2].tolist() == [True, True, True, True, False, False]
    assert found[0, :, 0].tolist() == [False, False, True, True, True, True]
    assert not found[0, :, 1].any()


def test_long_utterances_stay_finite(trigram: Tensor) -> None:
    given = 40 * torch.randn(2, 1500, PHONE_COUNT, generator=seeded())
    given.requires_grad_()
    known = torch.ones(2, 1500, dtype=torch.bool)
    total = log_sum(given, known, trigram.float())
    (gradient,) = torch.autograd.grad(total.sum(), given)
    assert total.isfinite().all()
    assert gradient.isfinite().all()


def test_a_recipe_without_a_head_of_phones_is_refused(tmp_path: Path) -> None:
    plain = recipe(corpus(tmp_path))
    with pytest.raises(ValueError, match=r"expected model.phones, whose head stage 'a' weighs"):
        replace(plain, stages=(Stage("a", 2, mmi=1.0),))


def trainer(manifest: Path, output: Path) -> Trainer:
    """A short run by the criterion, whose phones are the letters."""
    tones = cached(manifest, manifest.parent / "cache")
    states = letters_as_states(tones)
    stage = Stage("mmi", 40, ctc=0.1, mmi=1.0, learning_rate=1e-2, augmentation=PLAIN)
    model = replace(MODEL, phones=43)
    wanted = replace(recipe(manifest), model=model, stages=(stage,), interval=10)
    return Trainer(wanted, [tones], output, [states], phones_of_states=range(32))


def test_a_run_learns_and_goes_on_where_it_was_killed(manifest: Path, tmp_path: Path) -> None:
    found: list[float] = []

    class Watcher(Killer):
        def updated(self, stage: Stage, step: int, *rest: Any) -> None:
            found.append(rest[1]["mmi"])
            super().updated(stage, step, *rest)

    trainer(manifest, tmp_path / "whole").run(Watcher(-1))
    assert sum(found[-5:]) < 0.7 * sum(found[:5])
    with pytest.raises(Killed):
        trainer(manifest, tmp_path / "killed").run(Killer(25))
    trainer(manifest, tmp_path / "killed").run(None)
    assert equal(tensors(tmp_path / "killed"), tensors(tmp_path / "whole"))
