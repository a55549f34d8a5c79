"""`cortado info`: describes a checkpoint."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cortado.clients.commands.terminal import examples, list_facts

if TYPE_CHECKING:
    from cortado.model.description import Description

EXAMPLES = examples("cortado info", "cortado info runs/small-en/checkpoint --json")


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

    from cortado.model.checkpoint_reader import DEFAULT
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
    list_facts(lines)


def _memory(found: "Description") -> str:
    """Return the memory of a stream in the backend that serves."""
    if found.state_bytes is None:
        return f"no streams: {found.not_streamed}"
    return f"{found.state_bytes:,} bytes of state per stream in {found.backend}, which serves"
