"""`cortado deploy ray`: the server as replicas of Ray Serve."""

from typing import Annotated

import typer

from cortado.clients.commands.terminal import Checkpoint, examples

EXAMPLES = examples(
    "cortado deploy ray --most 4 --cores 2",
    "cortado deploy ray --address ray-head:6379 --fewest 2 --most 20 --every-node",
)


def deploy_ray(
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of the cluster's head; a cluster on this machine if not given.",
        ),
    ] = None,
    fewest: Annotated[int, typer.Option(min=1, help="Replicas at least.")] = 1,
    most: Annotated[
        int | None, typer.Option(min=1, help="Replicas at most; as many as at least if not given.")
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="Cores of a replica.")] = 1,
    leave_seconds: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds that the streams of a replica have to end before it is stopped."
        ),
    ] = 60.0,
    every_node: Annotated[
        bool, typer.Option("--every-node", help="Listen on every node, not on the head alone.")
    ] = False,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; 127.0.0.1 if not set.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 8000 if not set.")] = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Run the server as replicas of Ray Serve, or update those that run.

    The environment has all other settings of the server. With an address the command ends when the
    replicas run; without one it runs until Ctrl-C.
    """
    import os
    import signal

    import ray

    from cortado.clients.commands.cluster import join
    from cortado.server.ray_replicas import ENVIRONMENT, Replicas, run
    from cortado.server.run import bound, check_tls
    from cortado.server.settings import read_settings

    if most is not None and most < fewest:
        raise ValueError(f"expected --most {fewest} or more, got {most}")
    given = read_settings(host=host, port=port, checkpoint=checkpoint)
    settings = bound(given, lambda line: typer.echo(line, err=True))
    check_tls(settings)
    os.environ |= ENVIRONMENT
    join(address)
    had = int(ray.cluster_resources().get("CPU", 0))
    if address is None and fewest * cores > had:  # Ray would wait for them; elsewhere more may come
        raise ValueError(f"expected {fewest * cores} cores for {fewest} x {cores}, got {had} here")
    replicas = Replicas(fewest, most or fewest, cores, leave_seconds)
    run(settings, replicas, everywhere=every_node)
    scheme = "https" if settings.tls_certificate else "http"
    typer.echo(f"Cortado listens: open {scheme}://{settings.host}:{settings.port}")
    if address is None:
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
        ray.shutdown()
