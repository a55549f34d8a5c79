"""A progress bar in the terminal, for work that takes a while; log lines go above it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from cortado.model.progress import Progress


@contextmanager
def progress_bar(share: bool = False) -> Iterator[Progress]:
    """Show a bar on stderr while the block runs; yields what moves it.

    Beside it stand the numbers that are done and to be done, or their share in percent.

    Where stderr is no terminal there is no bar, and the log lines are plain.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        handler: logging.Handler = RichHandler(console=console, show_level=False, show_path=False)
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    else:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    columns = (
        BarColumn(),
        TaskProgressColumn() if share else MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)

        def report(what: str, done: int, total: int) -> None:
            shown = progress.tasks[0]
            if shown.total != total or done < shown.completed:  # another part of the work
                progress.reset(task, total=total)
            progress.update(task, description=what, completed=done)

        yield report
