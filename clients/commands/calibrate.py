"""`cortado calibrate`: fit a model's confidence of words to recordings."""

from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import Backend, Hold, Lm, Width, examples, use_one_thread

EXAMPLES = examples(
    "cortado calibrate models/mine dev.jsonl",
    "cortado calibrate models/mine read/dev.jsonl calls/dev.jsonl --backend fast-int8",
)


def calibrate(
    checkpoint: Annotated[
        Path, typer.Argument(help="Folder of a checkpoint; its model.json is changed.")
    ],
    sets: Annotated[
        list[Path],
        typer.Argument(help="Manifests or folders, as for cortado evaluate; each counts the same."),
    ],
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
) -> None:
    """Fit a model's confidence of words to recordings whose text is known.

    They are heard twice. The model must not have been trained on them: it would be too sure.
    """
    from cortado.clients.progress import progress_bar
    from cortado.model.backends.choice import load_recognizer
    from cortado.model.checkpoint_reader import read_config
    from cortado.model.search.settings import DEFAULT_BEAM, beam_from_options
    from cortado.training.data.evaluation_sets import gather
    from cortado.training.scoring.calibration import calibration_error, reliability
    from cortado.training.scoring.confidence import fit, hear, rated_by, write

    use_one_thread()
    chosen, search = gather(sets), beam_from_options(beam, hold, lm) or DEFAULT_BEAM
    before = read_config(checkpoint).decoder.confidence
    with progress_bar() as progress:
        heard = hear(
            lambda one: load_recognizer(checkpoint, backend, search._replace(confidence=one), lm),
            chosen,
            progress,
        )
    now = fit(heard)
    write(checkpoint, now)
    for each, words in zip(chosen, heard, strict=True):
        rated = [rated_by(one, words) for one in (before, now) if words]
        errors = (f"{100 * calibration_error(reliability(one)):.1f} %" for one in rated)
        said = f", calibration error {' -> '.join(errors)}" if words else ""
        typer.echo(f"{each.name}: {len(words)} words{said}")
    typer.echo(f"{checkpoint}: confidence {list(now)}")
