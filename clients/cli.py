"""The console command `cortado`: where the four packages meet.

The command `bench streams` is the function `bench_streams` of the module of that name in
`clients.commands`, which is imported when the command is run; what it needs is imported inside that
function. A user's mistake (an unknown option, `ValueError` from a boundary, `OSError` on a file, an
extra that is not installed) is one line on stderr and exit code 2; Ctrl-C is 130,
SIGTERM 143, a pipe that nobody reads 1; anything else is a fault of ours and shows its traceback.
"""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper

from cortado.clients.commands.failures import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USER_ERROR,
    absent,
    complain,
)

COMMANDS = {  # each with the first line of its help
    "serve": "Serve the web page and the streaming API.",
    "keys": "List, make and remove the API keys of a server.",
    "transcribe": "Print the text of audio files as it is decided.",
    "evaluate": "Score a model or a server: error rates, delays, confusions.",
    "calibrate": "Fit a model's confidence of words to recordings whose text is known.",
    "align": "Draw what the attention looks at for each character.",
    "prepare": "Write manifests of a corpus, and list what is wrong in it.",
    "join": "Join each speaker's recordings to streams with pauses.",
    "replay": "Recognise recorded streams again and compare the text.",
    "study": "Compare decoders: train what is missing, score, write a table.",
    "warm": "Compile for this CPU, so that no later start has to.",
    "lm": "Make a language model of words from text, for the search.",
    "export": "Put a model together for serving.",
    "train": "Train a model by a recipe; run it again to go on after a stop.",
    "mic": "Speak into the microphone and read in the terminal.",
    "info": "Describe a model: size, look-ahead, memory, scores.",
    "plan": "Simulate a day of a load: how many servers it takes, and their price.",
    "soak": "Load a server for long, with faulty clients, and watch it.",
    "deploy ray": "Run the server as replicas of Ray Serve, or update those that run.",
    "text train": "Train the rows of a text task; run it again to go on after a stop.",
    "text evaluate": "Score the runs of a text task, and draw what they attend to.",
    "text table": "Write the table of the text tasks from stored scores.",
    "bench attention": "Measure the attentions: decoding, training, whole updates.",
    "bench streams": "Measure how many live streams this machine carries, at the pace of speech.",
    "bench endless": "Push hours of speech, silence, noise, music and worse through one stream.",
}
GROUPS = {name.split()[0] for name in COMMANDS if " " in name}
HELP = """\
Usage: cortado [--help] [--version] COMMAND ...

  Streaming speech recognition: speak, and read characters as they are heard.
  `cortado COMMAND --help` explains a command.

Commands:
""" + "".join(f"  {name:16} {line}\n" for name, line in COMMANDS.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `cortado` on `arguments` (those of the process if none) and return its exit code."""
    if sys.stdout is None:  # closed, as by `>&-`
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of a name that it cannot write
    try:
        try:
            return _run(list(sys.argv[1:] if arguments is None else arguments))
        finally:
            _flush()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_OK
    except BrokenPipeError:  # as of `| head`, which has read enough
        return EXIT_FAILURE
    except (ValueError, OSError, ModuleNotFoundError) as error:
        if os.environ.get("CORTADO_TRACEBACK"):
            raise
        complain(absent(error) if isinstance(error, ModuleNotFoundError) else error)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _flush() -> None:
    """Write out what was printed; Python's own end would try it again where it fails."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _run(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        from importlib.metadata import version

        sys.stdout.write(f"cortado {version('cortado-asr')}\n")
        return EXIT_OK
    if words[:1] in (["--help"], ["-h"]):
        sys.stdout.write(HELP)
        return EXIT_OK
    length = 2 if words[:1] and words[0] in GROUPS else 1
    name = " ".join(words[:length])
    if name in COMMANDS:
        return _call(name, words[length:])
    if not words or (words[0] in GROUPS and words[1:] in ([], ["--help"], ["-h"])):
        (sys.stdout if words[1:] else sys.stderr).write(HELP)
        return EXIT_OK if words[1:] else EXIT_USER_ERROR
    near = " or ".join(get_close_matches(name, COMMANDS, 2))
    known = f"is {near} meant?" if near else "cortado --help lists them"
    raise ValueError(f"expected a command, got {name!r}: {known}")


def _call(name: str, arguments: list[str]) -> int:
    from cortado.clients.commands.terminal import run

    function = name.replace(" ", "_")
    module = import_module(f"cortado.clients.commands.{function}")
    options = getattr(module, "OPTIONS", {})
    return run(name, getattr(module, function), arguments, epilog=module.EXAMPLES, **options)


if __name__ == "__main__":
    sys.exit(main())
