"""The console command `cortado`: where the four packages meet.

Commands of any length are modules of `clients.commands`; each imports what it needs inside its own
function, so that `cortado --help` answers at once. A user's mistake (`ValueError` from a boundary,
`OSError` on a file) is one line on stderr and exit code 2; Ctrl-C is 130; anything else is a fault
of ours and shows its traceback.
"""

import os
import sys
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cortado.clients.commands import (
    align,
    bench,
    endless,
    evaluate,
    export,
    lm,
    prepare,
    replay,
    streams,
    study,
    warm,
)
from cortado.clients.commands.terminal import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USER_ERROR,
    Backend,
    Checkpoint,
    Hold,
    Lm,
    Width,
    complain,
    examples,
    use_one_thread,
)

if TYPE_CHECKING:
    from cortado.model.description import Description

STYLE: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,  # plain help takes a third of the time
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(no_args_is_help=True, **STYLE)
benchmarks = typer.Typer(no_args_is_help=True, help="Measure speed on this machine.", **STYLE)
app.add_typer(benchmarks, name="bench")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `cortado` on `arguments` (those of the process if none) and return its exit code."""
    try:
        app(args=arguments, prog_name="cortado")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_OK
    except (ValueError, OSError) as error:
        if os.environ.get("CORTADO_TRACEBACK"):
            raise
        complain(error)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_OK


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cortado {version('cortado-asr')}")
        raise typer.Exit


@app.callback()
def cortado(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Streaming speech recognition: speak, and read characters as they are heard."""


@app.command(
    add_help_option=False,  # its flags, and so its help, are made from the settings
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def serve(context: typer.Context) -> None:
    """Serve the web page and the streaming API."""
    epilog = examples("cortado serve", "CORTADO_PORT=9000 cortado serve --host 0.0.0.0")
    command = typer.Typer(**STYLE)
    command.command(epilog=epilog)(_with_flags_of_the_settings(_serve))
    command(args=context.args, prog_name="cortado serve")


def _serve(flags: dict[str, str | bool | None]) -> None:
    from cortado.server.settings import read_settings

    settings = read_settings(**flags)  # a mistake is told before the model's libraries are loaded

    from cortado.server.run import run

    run(settings, typer.echo)


def _with_flags_of_the_settings(
    call: Callable[[dict[str, str | bool | None]], None],
) -> Callable[..., None]:
    """Return a command that takes each setting of the server as a flag and hands them to `call`."""
    from cortado.server.settings import Settings, flag

    def command(**flags: str | bool | None) -> None:
        """Serve the web page and the streaming API.

        Each flag is an environment variable too: CORTADO_MAX_STREAMS for --max-streams.
        """
        call(flags)

    parameters = []
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, ()) else f"  [default: {field.default}]"
        text, switch = f"{field.description}{default}", field.annotation is bool
        names = f"--{flag(name)}/--no-{flag(name)}" if switch else f"--{flag(name)}"
        option = typer.Option(names, metavar=None if switch else "VALUE", help=text)
        kind: Any = Annotated[bool | None if switch else str | None, option]
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


@app.command(
    epilog=examples("cortado transcribe talk.mp3", "cortado transcribe --json *.wav > out.jsonl")
)
def transcribe(
    files: Annotated[list[Path], typer.Argument(help="Audio or video files of any common kind.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a file, with each character's time.")
    ] = False,
    vad: Annotated[
        bool,
        typer.Option(
            "--vad",
            help="Let a voice activity detector hear where utterances end;"
            " needs pip install 'cortado[vad]'.",
        ),
    ] = False,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Print the text of audio files as it is decided."""
    from cortado.model.search.beam import asked_for
    from cortado.model.stored import DEFAULT
    from cortado.model.streaming.transcribe import file_listener, transcribe_files
    from cortado.model.streaming.vad import load_vad

    use_one_thread()
    detector = load_vad() if vad else None
    listener = file_listener(checkpoint or DEFAULT, backend, asked_for(beam, hold, lm), lm)
    if not transcribe_files(listener, files, as_json, sys.stdout, complain, detector):
        raise typer.Exit(EXIT_USER_ERROR)


app.command(epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(epilog=align.EXAMPLES)(align.align)
app.command(epilog=prepare.EXAMPLES)(prepare.prepare)
app.command(epilog=replay.EXAMPLES)(replay.replay)
app.command(epilog=study.EXAMPLES)(study.study)
app.command(epilog=warm.EXAMPLES)(warm.warm)
app.command(epilog=lm.EXAMPLES)(lm.lm)
app.command(epilog=export.EXAMPLES)(export.export)
benchmarks.command(epilog=bench.ATTENTION_EXAMPLES)(bench.attention)
benchmarks.command(epilog=streams.EXAMPLES)(streams.streams)
benchmarks.command(epilog=endless.EXAMPLES)(endless.endless)


@app.command(
    epilog=examples(
        "cortado train training/recipes/small-en.toml",
        "cortado train my.toml --output runs/mine --processes 4",
    )
)
def train(
    recipe: Annotated[Path, typer.Argument(help="The TOML file that says what to train.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of the run; runs/NAME of the recipe if not set."
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", "-p", min=1, help="Processes that share the work.")
    ] = 1,
) -> None:
    """Train a model by a recipe; run it again to go on after a stop."""
    from cortado.clients.progress import progress_bar
    from cortado.training.learning import recipe as recipes
    from cortado.training.learning.run import train as run

    plan = recipes.read(recipe)
    with progress_bar() as report:
        written = run(plan, output or Path("runs") / plan.name, processes, report)
    typer.echo(written)


@app.command(
    epilog=examples(
        "cortado synth sentences.txt data/synthetic --count 1000",
        "cortado synth sentences.txt data/robot --count 50 --seed 7 --engine espeak-ng",
    )
)
def synth(
    text: Annotated[Path, typer.Argument(help="Sentences, one a line: a-z, apostrophe, space.")],
    output: Annotated[Path, typer.Argument(help="Folder for manifest.jsonl and audio/.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many utterances.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other voices and noise.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that speak at once.")] = 1,
    engine: Annotated[
        list[str] | None,
        typer.Option(help="espeak-ng, flite or festival; may be given again. All if not given."),
    ] = None,
) -> None:
    """Speak a text file with synthetic voices and write a manifest."""
    from cortado.clients.progress import progress_bar
    from cortado.training.synthesis.corpus import (
        DEFAULT_SHARES,
        SynthConfig,
        SynthError,
        synthesise,
    )

    shares = {name: DEFAULT_SHARES.get(name, 1.0) for name in engine or DEFAULT_SHARES}
    config = SynthConfig(text, output, count, seed, workers, shares)
    try:
        with progress_bar() as report:
            manifest = synthesise(config, lambda done, total: report("spoken", done, total))
    except SynthError as error:
        complain(error)
        raise typer.Exit(EXIT_FAILURE) from None
    typer.echo(manifest)


@app.command(epilog=examples("cortado mic", "cortado mic --url wss://example.org/v1/stream"))
def mic(
    url: Annotated[
        str, typer.Option(help="The server's stream, ws:// or wss://.")
    ] = "ws://127.0.0.1:8000/v1/stream",
    device: Annotated[
        str | None,
        typer.Option(help="A number or a part of a name; the system's default if not given."),
    ] = None,
    list_devices: Annotated[
        bool, typer.Option("--list-devices", help="List the microphones and stop.")
    ] = False,
) -> None:
    """Speak into the microphone and read in the terminal."""
    import asyncio

    from cortado.clients import microphone

    if list_devices:
        for each in microphone.inputs():
            typer.echo(f"{'*' if each.is_default else ' '} {each.number:3}  {each.name}")
        return
    chosen = int(device) if device and device.isdecimal() else device

    def write(text: str) -> None:
        typer.echo(text, nl=False)

    def tell(line: str) -> None:
        typer.echo(line, err=True)

    asyncio.run(microphone.speak(url, chosen, write, tell))


@app.command(epilog=examples("cortado info", "cortado info runs/small-en/best --json"))
def info(
    checkpoint: Annotated[
        Path | None,
        typer.Argument(help="Folder of a checkpoint; the shipped model if not given."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Describe a model: size, look-ahead, memory, scores."""
    import dataclasses
    import json

    from cortado.model.checkpoint import DEFAULT
    from cortado.model.description import describe

    found = describe(checkpoint or DEFAULT)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found), indent=2, ensure_ascii=False))
        return
    lines = {
        "model": found.name,
        "parameters": f"{found.parameters:,}",
        "sample rate": f"{found.sample_rate:,} Hz",
        "step": f"{found.step_ms} ms of audio",
        "look-ahead": f"{found.lookahead_ms} ms, and a window of {found.window_ms} ms",
        "memory": _memory(found),
        "language model": f"{found.words:,} words" if found.words else "none of its own",
    }
    lines |= {name: str(value) for name, value in found.card.items() if name != "scores"}
    for scores in found.card.get("scores", []):
        lines[scores["name"]] = f"WER {scores['wer']:.1%}, CER {scores['cer']:.1%}"
    width = max(map(len, lines))
    for name, value in lines.items():
        typer.echo(f"{name:{width}}  {value}")


def _memory(found: "Description") -> str:
    """Return the memory of a stream, in the backend that serves and in the reference."""
    if found.state_bytes is None:
        return f"no streams: {found.not_streamed}"
    served = f"{found.state_bytes:,} bytes of state per stream in {found.backend}, which serves"
    if found.backend == "reference":
        return served
    return f"{served}; {found.reference_bytes:,} in the reference"


if __name__ == "__main__":
    sys.exit(main())
