"""Runs commands in a process where nothing of the extras is to be had, and says how they went."""

import json
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

ABSENT = (
    *("torch", "torchaudio", "triton", "tensorboard", "matplotlib", "soundfile"),
    *("onnxruntime", "silero_vad", "sounddevice", "whisper_normalizer", "ray"),
)


def run(command: str) -> tuple[int, str, str]:
    from cortado.clients.cli import main

    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(shlex.split(command))
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    for module in ABSENT:
        sys.modules[module] = None  # type: ignore[assignment]  # to import it says it is absent
    if sys.argv[1] == "serve":
        from cortado.clients.cli import main

        sys.exit(main(sys.argv[1:]))
    json.dump([run(command) for command in sys.argv[1:]], sys.stdout)
