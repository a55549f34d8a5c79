"""`cortado serve`: the page and the streaming API, with a flag for each setting."""

import signal
from collections.abc import Callable
from inspect import Parameter, Signature
from types import FrameType
from typing import Annotated, Any

import typer

from cortado.clients.commands.terminal import examples, run, value_of

EXAMPLES = examples(
    "cortado serve", "CORTADO_PORT=9000 cortado serve --host 0.0.0.0 --keys keys.json"
)
# Its flags, and so its help, are made from the settings.
OPTIONS: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True},
}


def serve(context: typer.Context) -> None:
    """Serve the web page and the streaming API."""
    from cortado.model.processes import handled

    # Before anything is served: a reload that is asked for needs nothing more, a stop is in order.
    with handled(signal.SIG_IGN, signal.SIGHUP), handled(_stop, signal.SIGTERM, signal.SIGINT):
        command = _with_flags_of_the_settings(_serve)
        raise typer.Exit(run("serve", command, context.args, ended_by=(), epilog=EXAMPLES))


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _serve(flags: dict[str, str | bool | None]) -> None:
    from cortado.server.settings import read_settings

    settings = read_settings(**flags)  # a mistake is told before the model's libraries are loaded

    from cortado.server.run import run as serve_until_stopped

    raise typer.Exit(serve_until_stopped(settings, typer.echo))


def _with_flags_of_the_settings(
    call: Callable[[dict[str, str | bool | None]], None],
) -> Callable[..., None]:
    """Return a command that takes each setting of the server as a flag and hands them to `call`."""
    from cortado.server.settings import flag, listed

    def command(**flags: str | bool | None) -> None:
        """Serve the web page and the streaming API.

        Each flag is an environment variable too: CORTADO_MAX_STREAMS for --max-streams.
        """
        call(flags)

    parameters = []
    for name, field in listed().items():
        default = "" if field.default in (None, ()) else f"  [default: {field.default}]"
        text = " ".join(str(field.description).split()) + default
        switch = field.annotation is bool
        names = f"--{flag(name)}/--no-{flag(name)}" if switch else f"--{flag(name)}"
        option = typer.Option(names, metavar=value_of(field.annotation), help=text)
        kind: Any = Annotated[bool | None if switch else str | None, option]
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
