"""One page of metrics for all replicas of a Ray cluster.

A scrape reaches one replica, whichever Ray's proxy gives it to. So each replica posts its own page
to an actor of the cluster, and whoever is asked answers with all of them, by the label `replica`.
"""

import asyncio
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple

import ray
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from ray.exceptions import RayError

NAME, NAMESPACE = "cortado-metrics", "cortado"  # of the actor
PATIENCE_SECONDS = 2.0  # with the actor: who asks for metrics waits no longer than some seconds
FORGOTTEN_SECONDS = 20.0  # after which the page of a replica that posts no more is left out


class Pages:
    """The actor: the newest page of each replica."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[float, bytes]] = {}

    def post(self, replica: str, page: bytes) -> dict[str, bytes]:
        """Keep a replica's page; return those of all that have posted of late."""
        self._pages[replica] = monotonic(), page
        since = monotonic() - FORGOTTEN_SECONDS
        self._pages = {name: one for name, one in self._pages.items() if one[0] >= since}
        return {name: one for name, (_, one) in self._pages.items()}


class Board:
    """The pages, as a replica sees them."""

    def __init__(self, replica: str) -> None:
        """Find the cluster's pages, or begin them; `replica` is the name of who posts."""
        self._replica = replica
        self._pages: Any = (
            ray.remote(Pages)
            .options(
                name=NAME,
                namespace=NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
                max_restarts=-1,
                num_cpus=0,
            )
            .remote()
        )

    def post(self, page: bytes) -> None:
        """Post the replica's page, without waiting."""
        self._pages.post.remote(self._replica, page)

    async def all_with(self, page: bytes) -> bytes:
        """Post the replica's page; return the page of all, its own alone where none can be had."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                pages = await self._pages.post.remote(self._replica, page)
        except (RayError, TimeoutError):  # the actor's node is gone, and it is not yet at another
            pages = {self._replica: page}
        return merged(pages)


class _Together(NamedTuple):
    """The pages of replicas, as what Prometheus' client writes a page of."""

    pages: Mapping[str, bytes]

    def collect(self) -> Iterable[Metric]:
        """Return the families of all of them, as a registry does."""
        found: dict[str, Metric] = {}
        for replica, page in sorted(self.pages.items()):
            for one in text_string_to_metric_families(page.decode()):
                family = found.setdefault(one.name, Metric(one.name, one.documentation, one.type))
                for sample in one.samples:
                    labels = {**sample.labels, "replica": replica}
                    family.add_sample(sample.name, labels, sample.value)
        return found.values()


def merged(pages: Mapping[str, bytes]) -> bytes:
    """Return one page, in Prometheus' text format, of the pages of replicas by their names."""
    return generate_latest(_Together(pages))
