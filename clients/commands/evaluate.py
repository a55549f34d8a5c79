"""`cortado evaluate`: error rates of a recogniser."""

from pathlib import Path
from typing import Annotated

import typer

from clients.commands.terminal import (
    EXIT_FAILURE,
    Checkpoint,
    complain,
    examples,
    use_one_thread,
    width,
)

EXAMPLES = examples(
    "cortado evaluate ../shared/data/librispeech-mini/dev.jsonl",
    "cortado evaluate dev.jsonl test.jsonl --json scores.json",
)


def evaluate(
    manifests: Annotated[list[Path], typer.Argument(help="JSON lines files; a set each.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the scores here as JSON.")
    ] = None,
    hypotheses: Annotated[
        Path | None, typer.Option(help="Write each utterance here: said, heard, errors.")
    ] = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Score a model on manifests: error rates with 95 % intervals."""
    from rich.console import Console

    from clients.progress import progress_bar
    from model.checkpoint import DEFAULT
    from training import evaluate as evaluation
    from training.report import table

    use_one_thread()
    for path in filter(None, (json_file, hypotheses)):
        evaluation.check_place(path)
    with progress_bar() as report:
        sets = evaluation.evaluate(checkpoint or DEFAULT, manifests, report)
    if json_file is not None:
        evaluation.write_json(sets, json_file)
    if hypotheses is not None:
        evaluation.write_hypotheses(sets, hypotheses)
    Console(width=width()).print(table(sets))
    failures = [failure for one in sets for failure in one.failures]
    for failure in failures:
        complain(failure)
    if failures:
        raise typer.Exit(EXIT_FAILURE)
