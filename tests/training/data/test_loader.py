"""Batches that other processes load: the same as without them, in order, wherever they are cut."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import pytest
import torch

from cortado.model.vocabulary import ENGLISH, Vocabulary
from cortado.tests.training.tiny import PLAIN, corpus
from cortado.training.data.batches import Sampler
from cortado.training.data.loader import MOST, Job, Loaded, loaded, loaders_beside
from cortado.training.data.log_mel_cache import cached

NOISY = replace(PLAIN, noise=1.0, time_masks=2)


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> Sampler:
    folder = tmp_path_factory.mktemp("tones")
    tones = cached(corpus(folder), folder / "cache")
    return Sampler([tones], [1.0], Vocabulary(ENGLISH), 400, 10.0, seed=3)


def jobs(sampler: Sampler) -> Iterator[Job]:
    for pool in count():
        for place, drawn in enumerate(sampler.pool(pool, NOISY)):
            yield Job(pool, place, drawn, NOISY, 1000 * pool + place, 1)


def first(sampler: Sampler, loaders: int, number: int = 12) -> list[Loaded]:
    return list(islice(loaded(sampler, jobs(sampler), loaders), number))


def test_other_processes_load_the_same_batches_in_order(sampler: Sampler) -> None:
    for one, other in zip(first(sampler, 0), first(sampler, 2), strict=True):
        assert one[:2] == other[:2]
        for ours, theirs in zip(one.batch[:4], other.batch[:4], strict=True):
            assert torch.equal(ours, theirs)


def test_what_a_process_cannot_load_is_said(sampler: Sampler) -> None:
    missing = next(jobs(sampler))
    drawn = [missing.drawn[0]._replace(corpus=7)]
    with pytest.raises(IndexError, match="index out of range"):
        next(loaded(sampler, iter([missing._replace(drawn=drawn)]), 1))


def test_a_gpu_has_the_cores_that_no_process_computes_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cortado.training.data.loader.usable_cores", lambda: 12)
    assert loaders_beside("cpu", 1) == 0
    assert loaders_beside("cuda", 1) == 11
    assert loaders_beside("cuda", 4) == 2
    assert loaders_beside("cuda", 12) == 0
    with monkeypatch.context() as torchrun:
        torchrun.setenv("LOCAL_WORLD_SIZE", "4")
        assert loaders_beside("cuda", 12) == 2
    monkeypatch.setattr("cortado.training.data.loader.usable_cores", lambda: 96)
    assert loaders_beside("cuda", 1) == MOST
