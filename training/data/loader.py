"""Batches loaded ahead by other processes, so that a GPU need not wait for their augmentation."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from torch.utils.data import DataLoader, Dataset

from cortado.model.cores import usable_cores
from cortado.training.data.augment import Augmentation
from cortado.training.data.batches import Batch, Drawn, Sampler

MOST = 16  # processes


class Job(NamedTuple):
    """What a batch is loaded from."""

    pool: int  # the number of its pool
    place: int  # its place among the pool's batches
    drawn: list[Drawn]
    augmentation: Augmentation
    seed: int
    views: int


class Loaded(NamedTuple):
    """A batch, and where it comes from."""

    pool: int
    place: int
    batch: Batch


class _Jobs(Dataset[Loaded]):
    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def __getitem__(self, job: Job) -> Loaded:
        batch = self._sampler.load(job.drawn, job.augmentation, job.seed, job.views)
        return Loaded(job.pool, job.place, batch)


def loaders_beside(device: str, processes: int) -> int:
    """Return how many processes load for each of those that compute on a device.

    Beside a CPU's none do: its cores compute. Under torchrun, `processes` are those of all
    machines, of which this one has a part.
    """
    here = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
    return 0 if device == "cpu" else min(max(usable_cores() // here - 1, 0), MOST)


def loaded(
    sampler: Sampler, jobs: Iterator[Job], loaders: int = 0, pinned: bool = False
) -> Iterator[Loaded]:
    """Yield the batches of jobs in order; some jobs are taken before their batches are needed.

    Args:
        sampler: loads them.
        jobs: which; there may be no end of them.
        loaders: processes that load, 0 for this one.
        pinned: whether batches lie in memory from which a GPU copies without delay.
    """
    yield from DataLoader(
        _Jobs(sampler),
        batch_size=None,
        sampler=jobs,
        num_workers=loaders,
        pin_memory=pinned,
    )
