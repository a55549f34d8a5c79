"""`cortado warm`: compiles the model's kernels ahead, so that the first start does not wait."""

import time

import typer

from cortado.clients.commands.terminal import (
    Backend,
    Checkpoint,
    Hold,
    Lm,
    Width,
    examples,
    load_served,
)

EXAMPLES = examples("cortado warm", "NUMBA_CACHE_DIR=compiled cortado warm --backend fast-fp32")


def warm(
    checkpoint: Checkpoint = None,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
) -> None:
    """Compile for this CPU, so that no later start has to.

    What is compiled lies beside the sources, or in the folder NUMBA_CACHE_DIR. A CPU of another
    kind compiles again.
    """
    import numpy as np

    from cortado.model.features.framing import SAMPLES_PER_STEP
    from cortado.model.streaming.pool import Pool
    from cortado.model.streaming.recordings import transcribe

    began = time.perf_counter()
    recognizer = load_served(checkpoint, backend, beam, hold, lm)
    silence = np.zeros(SAMPLES_PER_STEP, np.float32)
    transcribe(recognizer, silence)
    Pool(recognizer, 1).warm()
    typer.echo(f"{recognizer.name} is ready after {time.perf_counter() - began:.1f} s")
