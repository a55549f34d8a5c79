"""Transcription of whole recordings by streaming, many of them at a time."""

from collections.abc import Iterable, Iterator

from cortado.model.arrays import Samples
from cortado.model.emission import Character
from cortado.model.streaming.endpoint import Rules
from cortado.model.streaming.interface import BATCH, StreamingRecognizer
from cortado.model.streaming.options import DEFAULT_OPTIONS, StreamOptions
from cortado.model.streaming.pool import Pool
from cortado.model.streaming.vad import Vad


def transcribe(recognizer: StreamingRecognizer, samples: Samples) -> list[Character]:
    """Return the characters of a whole recording at 16 kHz."""
    return next(characters for _, characters in transcribe_many(recognizer, [samples], 1))


def transcribe_many(
    recognizer: StreamingRecognizer,
    recordings: Iterable[Samples],
    streams: int = BATCH,
    rules: Rules | None = None,
    vad: Vad | None = None,
    options: StreamOptions = DEFAULT_OPTIONS,
) -> Iterator[tuple[int, list[Character]]]:
    """Yield (index, characters) of whole recordings as they finish, `streams` of them at a time.

    Raises: PhrasesError where the recogniser cannot expect the phrases of the options.
    """
    waiting = enumerate(recordings)
    pool = Pool(recognizer, streams, rules=rules, vad=vad)
    open_rows: dict[int, tuple[int, list[Character]]] = {}  # by row: index and characters
    while True:
        while pool.free and (following := next(waiting, None)) is not None:
            index, samples = following
            row = pool.open(options)
            pool.push(row, samples)
            pool.end(row)
            open_rows[row] = index, []
        if not open_rows:
            return
        for row, update in pool.advance():
            open_rows[row][1].extend(update.characters)
            if update.finished:
                yield open_rows.pop(row)
                pool.close(row)
