"""Errors of commands: exit codes, and one line on stderr."""

import sys
from errno import ENOSPC
from signal import SIGINT

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USER_ERROR = 2
EXIT_SIGNAL = 128  # and the signal's number, as shells count
EXIT_INTERRUPTED = EXIT_SIGNAL + SIGINT

EXTRAS = {  # of the distribution, by the module that they bring
    "torch": "train",
    "torchaudio": "train",
    "tensorboard": "train",
    "matplotlib": "train",
    "soundfile": "train",
    "wordfreq": "train",
    "sacrebleu": "train",
    "rouge_score": "train",
    "ray": "ray",
    "redis": "redis",
    "upath": "archive",
}


def complain(error: Exception) -> None:
    """Write what is wrong to stderr, on one line."""
    sys.stderr.write(f"cortado: {one_line(error)}\n")
    sys.stderr.flush()


def one_line(error: Exception) -> str:
    """Say `error` on one line, with the file first where the system names one."""
    if isinstance(error, OSError) and error.strerror:
        # All files that are written are named, so that a full disk without a name is the output's.
        name = error.filename or ("standard output" if error.errno == ENOSPC else None)
        if name is not None:
            return f"{name}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def absent(error: ModuleNotFoundError) -> ValueError:
    """Return the mistake of somebody who has not installed what a module is part of.

    Raises: `error` itself where the module is of no extra.
    """
    if (error.name or "").startswith("cortado.training.text"):  # left out of the wheel
        return ValueError("the text tasks need a clone of the project; they are not installed")
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        raise error
    extra = EXTRAS[module]
    return ValueError(
        f"this needs {module}, of the extra cortado-asr[{extra}]; "
        f"in a clone: make install EXTRAS={extra}"
    )
