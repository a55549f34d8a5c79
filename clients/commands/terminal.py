"""Options, tables and thread settings that the commands share."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from pydantic import ValidationError
from typer.core import TyperArgument
from typer.exceptions import TyperException
from typer.main import get_command
from typer.models import OptionInfo

from cortado.clients.commands.failures import EXIT_SIGNAL

if TYPE_CHECKING:
    from rich.console import Console

    from cortado.model.streaming.interface import StreamingRecognizer

STYLE: dict[str, Any] = {  # of every command
    "add_completion": False,
    "rich_markup_mode": None,  # plain help takes a third of the time
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}

WIDTH_OF_A_FILE = 132  # columns of a table that does not go to a terminal

VALUES = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH"}  # of options, in the help

Format = Literal["txt", "srt", "vtt", "json", "ctm"]  # of a transcript
ENDINGS = get_args(Format)

Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", "-c", help="Folder of a checkpoint; the shipped model if not set."
    ),
]

Backend = Annotated[
    str,
    typer.Option(
        help="Backend that runs the model: auto, fast (compiled for this CPU), fast-amx, fast-int8,"
        " fast-bf16, fast-fp32, reference, or cuda (a GPU)."
    ),
]


Width = Annotated[
    int | None,
    typer.Option(
        "--beam",
        help="Hypotheses of the search, 128 if not set, at most 256; 1 for the greedy scan, which"
        " is cheapest and commits each character at once.",
    ),
]

Hold = Annotated[
    int | None,
    typer.Option(
        help="Milliseconds after which the search commits a character at the latest; 560 if"
        " not set, at most 2000."
    ),
]

Lm = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Language model of the search, made by cortado lm, or none; the checkpoint's own if"
        " not set.",
    ),
]

Phrases = Annotated[
    list[str] | None,
    typer.Option(help="What is likely to be said, such as a name; may be given up to 100 times."),
]

Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or mps; cuda where there is one if not set.")
]

Rows = Annotated[list[str] | None, typer.Option(help="Only this row; may be given again.")]

Json = Annotated[Path | None, typer.Option("--json", help="Write everything here as JSON.")]


def run(
    name: str,
    call: Callable[..., None],
    arguments: Sequence[str],
    *,
    ended_by: Sequence[int] = (signal.SIGTERM, signal.SIGHUP),
    **options: Any,
) -> int:
    """Run the command `cortado NAME`, whose options are those of `call`; return its exit code.

    It ends by these signals as by Ctrl-C.

    Raises: ValueError for arguments that it does not have, with how to see those that it has.
    """
    from cortado.model.processes import handled

    app = typer.Typer(**STYLE)
    _name_values(call)
    app.command(**options)(call)
    command = get_command(app)
    for one in command.params:
        if isinstance(one, TyperArgument):  # its help says what it is
            one.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
    try:
        with handled(_end, *ended_by):
            code = command(args=arguments, prog_name=f"cortado {name}", standalone_mode=False)
    except typer.Abort as error:  # of a prompt
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise ValueError("expected an answer, got the end of the input") from None
    except TyperException as error:
        mistake = error.format_message().removesuffix(".").replace("Value error, ", "")
        mistake = mistake[:1].lower() + mistake[1:]
        cause = error.__cause__
        if isinstance(cause, ValidationError) and "Input should be" in mistake:
            expected = mistake.replace("Input should be", "expected").partition(", unable")[0]
            mistake = f"{expected}, got {cause.errors()[0]['input']}"
        raise ValueError(f"{mistake}; cortado {name} --help explains") from None
    return code if isinstance(code, int) else 0


def _name_values(call: Callable[..., None]) -> None:
    """Name what the options of `call` take, in its help: typer has Python's types there."""
    for hint in get_type_hints(call, include_extras=True).values():
        for option in get_args(hint):
            if isinstance(option, OptionInfo) and option.metavar is None:
                option.metavar = value_of(hint)


def value_of(kind: Any) -> str | None:
    """Return what the help calls a value of a type, as NUMBER; None for a switch."""
    return "|".join(dict.fromkeys(_values(kind))) or None


def _values(kind: Any) -> Iterator[str]:
    if kind in VALUES:
        yield VALUES[kind]
    elif isinstance(kind, type) and issubclass(kind, Enum):
        yield from (one.value for one in kind)
    for one in get_args(kind):  # of a Literal these are its values
        yield from [one] if isinstance(one, str) else _values(one)


def _end(number: int, frame: FrameType | None) -> None:
    """End as at Ctrl-C: what was heard is saved, files that are half written go, processes end.

    The first process of a container feels no signal that it has not asked for.
    """
    raise SystemExit(EXIT_SIGNAL + number)


def load_served(
    checkpoint: Path | None, backend: str, beam: int | None, hold: int | None, lm: str | None
) -> "StreamingRecognizer":
    """Return the recogniser that a command's options ask for.

    Raises: ValueError where there is none.
    """
    from cortado.model.backends.choice import load_recognizer
    from cortado.model.checkpoint_reader import DEFAULT
    from cortado.model.search.settings import beam_from_options

    return load_recognizer(checkpoint or DEFAULT, backend, beam_from_options(beam, hold, lm), lm)


def ending(output: Path | None) -> Format | None:
    """Return the format that a file's name says."""
    name = output.suffix[1:].lower() if output else ""
    return "json" if name == "jsonl" else next((one for one in ENDINGS if one == name), None)


def check_places(*paths: Path | None, given: Iterable[str | Path] = ()) -> None:
    """Look, before hours of work, whether files can be written; None is one that is not wanted.

    Raises: ValueError where one cannot, two would be written into one, or one would replace what
        was given to be read.
    """
    outputs, kept = [path for path in paths if path], set(map(os.path.abspath, given))
    for path in outputs:
        if outputs.count(path) > 1:
            raise ValueError(f"expected a file for each output, got {path} twice")
        if os.path.abspath(path) in kept:
            raise ValueError(f"expected another file than one that is read, got {path}")
        folder = path.absolute().parent
        if path.is_dir() or not folder.is_dir():
            raise ValueError(f"expected a file in a folder that exists, got {path}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise ValueError(f"expected a file that can be written, got {path}")


def check_folder(path: Path | None) -> None:
    """Look, before hours of work, whether files can be put in a folder; None is none wanted.

    Raises: ValueError where they cannot.
    """
    there = path and next(one for one in (path, *path.absolute().parents) if one.exists())
    if there and not (there.is_dir() and os.access(there, os.W_OK)):
        raise ValueError(f"expected a folder that files can be written to, got {path}")


def examples(*lines: str) -> str:
    """Lay out command lines for the end of a command's help."""
    # The \b keeps the lines below it from being wrapped into one paragraph.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def list_facts(facts: Mapping[str, str]) -> None:
    """Print facts, a line each, beside their names."""
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:{width}}  {value}")


def use_one_thread() -> None:
    """Keep the model on one core: its products are too small to be shared by threads."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    else:  # whoever needs it loads it later
        os.environ["OMP_NUM_THREADS"] = "1"


def console() -> "Console":
    """Return where tables are printed: the terminal in its width, or a file in a fixed one."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE)
