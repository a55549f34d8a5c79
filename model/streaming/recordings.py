"""Whole recordings through the steps that live streams take, many of them at a time."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from cortado.model.streaming.endpoint import Rule
from cortado.model.streaming.listener import Listener
from cortado.model.streaming.stream import Character, Samples
from cortado.model.streaming.utterances import Utterances

if TYPE_CHECKING:
    from cortado.model.backends.choice import Online
    from cortado.model.streaming.vad import Vad


def transcribe(online: "Online", samples: Samples) -> list[Character]:
    """Return the characters of a whole recording at 16 kHz."""
    return next(characters for _, characters in transcribe_many(online, [samples], 1))


def transcribe_many(
    online: "Online",
    recordings: Iterable[Samples],
    streams: int = 64,
    rules: tuple[Rule, ...] | None = None,
    vad: "Vad | None" = None,
) -> Iterator[tuple[int, list[Character]]]:
    """Yield (index, characters) of whole recordings as they finish, `streams` of them at a time."""
    waiting = enumerate(recordings)
    listener = Listener(online, streams, rules=rules, vad=vad)
    live: dict[int, _Recording] = {}  # by row
    free = list(reversed(range(streams)))
    while True:
        fresh = []
        while free and (following := next(waiting, None)) is not None:
            fresh.append(free.pop())
            live[fresh[-1]] = _Recording(online, *following)
        if fresh:
            listener.reset(np.array(fresh))
        if not live:
            return
        rows = list(live)
        steps = [step for row in rows if (step := live[row].stream.next_step()) is not None]
        symbols, ended = listener.step(np.stack(steps), np.array(rows))
        for row, written, end in zip(rows, symbols.tolist(), ended.tolist(), strict=True):
            one = live[row]
            one.hear(written, end)
            if one.stream.finished:
                yield one.index, one.characters
                del live[row]
                free.append(row)


class _Recording:
    """A whole recording on its way."""

    def __init__(self, online: "Online", index: int, samples: Samples) -> None:
        self.index = index
        self.characters: list[Character] = []
        self.stream = online.stream()
        self.stream.push(samples)
        self.stream.end()
        self._utterances = Utterances(online.vocabulary.spaced)

    def hear(self, written: list[int], ended: bool) -> None:
        """Take what a step gave."""
        characters, _ = self._utterances.hear(self.stream.emitted(written), ended)
        self.characters += characters
