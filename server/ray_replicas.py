"""The server as replicas of Ray Serve: the same application, with an engine in each replica.

Ray's proxies stand in front of the replicas and give each connection to one of them. A replica says
how many streams it has and how many it refused; `wanted` makes the number of replicas of that. One
that Ray stops gets no new stream, and `leave_seconds` for its own; those that last longer are cut,
and go on at another replica as after any lost connection.
"""

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy, HTTPOptions
from ray.util.metrics import Gauge
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from cortado.server import logs
from cortado.server.app import create_app
from cortado.server.ray_metrics import Board
from cortado.server.service import load
from cortado.server.settings import Settings, read_settings
from cortado.server.store import MEMORY

NAME = "cortado"  # of the application and of its deployment
TARGET = 0.7  # share of the capacity that is to be used
REPORT_SECONDS = 5.0  # between two reports of a replica
MORE_SECONDS = 10.0  # for which more replicas have to be wanted
FEWER_SECONDS = 600.0  # for which fewer have to be enough
ENVIRONMENT = {  # of every node, when Ray is started there
    # Else a node's proxy fills the replicas of its own node, while others have room.
    "RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0",
    "RAY_SERVE_PROXY_PREFER_LOCAL_AZ_ROUTING": "0",
    "RAY_worker_niceness": "0",  # else all other work of a node comes before live speech
    "FORWARDED_ALLOW_IPS": "",  # else the proxies believe whoever calls from their own machine
}
REFUSED = "cortado_connections_refused_total"


class Replica:
    """One engine, and the application around it."""

    def __init__(self, settings: Settings) -> None:
        logs.configure(settings)
        self._settings, self._service = settings, load(settings)
        self._refused = 0.0  # that were reported
        self._live = Gauge("cortado_streams_active", "Live streams.")
        self._capacity = Gauge("cortado_streams_capacity", "Live streams that are let in.")
        self._board = Board(serve.get_replica_context().replica_id.unique_id)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Return the application; Ray asks for it when the replica is there.

        Its proxy hands over the address of whom it has taken the connection from.
        """
        app = create_app(self._service, self._exposition)
        trusted = list(self._settings.trusted_proxies)
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=trusted)
        return app

    async def _exposition(self) -> bytes:
        return await self._board.all_with(self._service.metrics.exposition())

    async def check_health(self) -> None:
        """Let Ray replace a replica whose model does not run.

        Raises: RuntimeError if it does not run.
        """
        if self._service.failure or not self._service.engine.alive:
            raise RuntimeError("expected a model that runs, got one that does not")

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return how many streams there are, may be, and were refused since the last report."""
        engine, registry = self._service.engine, self._service.metrics.registry
        self._board.post(self._service.metrics.exposition())
        labels = {"reason": "too_many_streams"}
        refused = registry.get_sample_value(REFUSED, labels) or 0.0
        since, self._refused = refused - self._refused, refused
        self._live.set(engine.active)
        self._capacity.set(engine.capacity.streams)
        return {"streams": engine.active, "capacity": engine.capacity.streams, "refused": since}


def wanted(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """Return the replicas for the streams that live or were refused, and no state."""
    found = context.aggregated_metrics or {}
    capacity = found.get("capacity", {})
    if not capacity:  # none has reported yet
        return context.target_num_replicas, {}
    demand = sum(found["streams"].values()) + sum(found["refused"].values())
    mean = sum(capacity.values()) / len(capacity)
    return ceil(demand / (TARGET * mean)), {}


@dataclass(frozen=True)
class Replicas:
    """How many replicas there may be, and what each takes."""

    fewest: int = 1
    most: int = 1
    cores: int = 1  # of one
    leave_seconds: float = 60.0  # that its streams have to end where it is stopped


def application(settings: Settings, replicas: Replicas) -> serve.Application:
    """Return the application for `serve.run`.

    Raises: ValueError if streams could not move between replicas.
    """
    if settings.store == MEMORY:
        raise ValueError("expected a store that all replicas share, got memory")
    scaling = AutoscalingConfig(
        min_replicas=replicas.fewest,
        max_replicas=replicas.most,
        metrics_interval_s=REPORT_SECONDS,
        look_back_period_s=2 * REPORT_SECONDS,
        upscale_delay_s=MORE_SECONDS,
        downscale_delay_s=FEWER_SECONDS,
        policy=AutoscalingPolicy(policy_function=wanted),
    )
    deployment = serve.deployment(
        serve.ingress()(Replica),
        name=NAME,
        ray_actor_options={"num_cpus": replicas.cores},
        # Its engine refuses what is too much, with a code; Ray would let clients wait.
        max_ongoing_requests=settings.max_connections,
        autoscaling_config=scaling,
        graceful_shutdown_timeout_s=replicas.leave_seconds,
    )
    return deployment.bind(settings.model_copy(update={"threads": replicas.cores}))


def build(arguments: dict[str, Any]) -> serve.Application:
    """Return the application for Serve's configuration file; settings are of the environment.

    Raises: ValueError for a certificate, which that file's `http_options` have to name.
    """
    settings = read_settings()
    if settings.tls_certificate:
        raise ValueError("expected the certificate in http_options, got CORTADO_TLS_CERTIFICATE")
    return application(settings, Replicas(**arguments))


def run(settings: Settings, replicas: Replicas, *, everywhere: bool) -> None:
    """Run replicas on the cluster that Ray is connected to, or bring those that run up to date.

    A proxy listens on every node, or on the head alone.

    Raises: ValueError if they cannot be run.
    """
    serve.start(
        proxy_location="EveryNode" if everywhere else "HeadOnly",
        http_options=HTTPOptions(
            host=settings.host,
            port=settings.port,
            ssl_certfile=_path(settings.tls_certificate),
            ssl_keyfile=_path(settings.tls_key),
        ),
    )
    replicated = application(settings, replicas)
    try:
        serve.run(replicated, name=NAME)
    except RuntimeError as error:
        raise ValueError(f"expected replicas that run, got: {_reason() or error}") from error


def _path(given: Path | None) -> str | None:
    return str(given) if given else None


def _reason() -> str:
    """Return the last line of what a replica has said that did not start; empty for none."""
    deployments = serve.status().applications[NAME].deployments.values()
    lines = [line for one in deployments for line in one.message.splitlines() if line.strip()]
    return lines[-1] if lines else ""
