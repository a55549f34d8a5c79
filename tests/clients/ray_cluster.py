"""A Ray cluster of two nodes on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PATIENT = {  # a busy machine is slow to start them
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@contextmanager
def two_nodes() -> Iterator[str]:
    """Run nodes with a core each; yield the address of the first."""
    from ray.cluster_utils import Cluster

    from cortado.server.ray_replicas import ENVIRONMENT

    options = {"num_cpus": 1, "object_store_memory": 80 * 1024**2}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (ENVIRONMENT | PATIENT).items():
            patch.setenv(name, value)
        cluster = Cluster(
            initialize_head=True, head_node_args=options | {"include_dashboard": False}
        )
        try:
            cluster.add_node(**options)
            cluster.wait_for_nodes()
            yield cluster.address
        finally:
            cluster.shutdown()
