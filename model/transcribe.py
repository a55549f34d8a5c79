"""Files to text: characters as they are decided, in constant memory however long the file."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TextIO

import numpy as np

from model.audio import AudioError, Samples, stream
from model.backend import Online
from model.features import SAMPLE_RATE
from model.online import Character


def characters(online: Online, pieces: Iterable[Samples]) -> Iterator[list[Character]]:
    """Yield the characters of each step as pieces of audio at 16 kHz come in."""
    bookkeeping, table, row = online.stream(), online.table(1), np.zeros(1, np.int64)
    for samples in chain(pieces, [None]):
        if samples is None:
            bookkeeping.end()
        else:
            bookkeeping.push(samples)
        while (step := bookkeeping.next_step()) is not None:
            symbols = table.step(step[None], row)
            yield bookkeeping.emitted(symbols[0].tolist())


def transcribe_files(
    online: Online,
    files: Sequence[Path],
    as_json: bool,
    out: TextIO,
    complain: Callable[[AudioError], None],
) -> bool:
    """Write the text of files to `out` as it is decided; return whether every file was whole.

    Args:
        online: the recogniser.
        files: in the order in which they are written.
        as_json: write one JSON object per file, on a line of its own when the file is done, with
            file, text, duration (seconds) and characters (text, time in seconds).
        out: where text goes; flushed at each character.
        complain: called with what is wrong with a file, in whose place the next one follows.
    """
    whole = True
    for path in files:
        try:
            with closing(stream(path)) as pieces:
                if as_json:
                    _write_json(online, path, pieces, out)
                else:
                    _write_text(online, path if len(files) > 1 else None, pieces, out)
        except AudioError as error:
            complain(error)
            whole = False
    return whole


def _write_text(
    online: Online, header: Path | None, pieces: Iterator[Samples], out: TextIO
) -> None:
    first = next(pieces)  # before the header, which a file that cannot be opened does not get
    if header is not None:
        out.write(f"==> {header} <==\n")
    try:
        for written in characters(online, chain([first], pieces)):
            if written:
                out.write("".join(character.text for character in written))
                out.flush()
    finally:
        out.write("\n")
        out.flush()


def _write_json(online: Online, path: Path, pieces: Iterator[Samples], out: TextIO) -> None:
    count = 0

    def counted() -> Iterator[Samples]:
        nonlocal count
        for piece in pieces:
            count += len(piece)
            yield piece

    written = [one for step in characters(online, counted()) for one in step]
    content = {
        "file": str(path),
        "text": "".join(character.text for character in written),
        "duration": round(count / SAMPLE_RATE, 3),
        "characters": [{"text": one.text, "time": one.time} for one in written],
    }
    out.write(json.dumps(content, ensure_ascii=False) + "\n")
    out.flush()
