"""What the commands share: exit codes, options, one line for a mistake."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cortado.model.backends.choice import Online

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130

WIDTH_OF_A_FILE = 132  # columns of a table that does not go to a terminal

Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", "-c", help="Folder of a checkpoint; the shipped model if not set."
    ),
]

Backend = Annotated[
    str,
    typer.Option(
        help="What steps the model: auto, fast (compiled for this CPU), fast-amx, fast-int8,"
        " fast-bf16, fast-fp32, reference, or cuda (a GPU)."
    ),
]


Width = Annotated[
    int | None,
    typer.Option(
        "--beam",
        help="Hypotheses of the search, 8 if not set; 1 for the greedy scan, which is cheapest and"
        " tells at once.",
    ),
]

Hold = Annotated[
    int | None,
    typer.Option(help="Milliseconds for which the search may leave a character open; 280."),
]

Lm = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Language model that the search weighs, made by cortado lm: the checkpoint's own if"
        " not set, or none.",
    ),
]

Json = Annotated[Path | None, typer.Option("--json", help="Write everything here as JSON.")]


def load_served(
    checkpoint: Path | None, backend: str, beam: int | None, hold: int | None, lm: str | None
) -> "Online":
    """Return the recogniser that a command's options ask for.

    Raises: ValueError where there is none.
    """
    from cortado.model.backends.choice import load_online
    from cortado.model.search.beam import asked_for
    from cortado.model.stored import DEFAULT

    return load_online(checkpoint or DEFAULT, backend, asked_for(beam, hold, lm), lm)


def check_places(*paths: Path | None) -> None:
    """Look, before hours of work, whether files can be written; None is one that is not wanted.

    Raises: ValueError where one cannot.
    """
    for path in filter(None, paths):
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise ValueError(f"expected a file in a folder that exists, got {path}")


def complain(error: Exception) -> None:
    """Write what is wrong to stderr, on one line."""
    typer.echo(f"cortado: {one_line(error)}", err=True)


def one_line(error: Exception) -> str:
    """Say `error` on one line, with the file first where the system names one."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def examples(*lines: str) -> str:
    """Lay out command lines for the end of a command's help."""
    # The \b keeps the lines below it from being wrapped into one paragraph.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def use_one_thread() -> None:
    """Keep the model on one core: its products are too small to be shared by threads."""
    import torch

    torch.set_num_threads(1)


def width() -> int | None:
    """Return the columns that a table may take; None leaves it to the terminal."""
    return None if sys.stdout.isatty() else WIDTH_OF_A_FILE
