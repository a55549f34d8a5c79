"""S streams, one a row: audio in, emissions parted into utterances out, and snapshots.

A live stream is a pool of one, files are a pool of as many as are heard at once, a server's engine
is a pool of thousands. One step of all streams that have one is taken in three turns, so that an
engine can hold its lock in the first and the last and not while the model computes:

    batch = pool.take(pool.ready())
    output = pool.step(batch)
    results = pool.settle(batch, output)

Nothing here knows of threads.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.emission import Emissions
from cortado.model.streaming.buffer import Buffer, Steps
from cortado.model.streaming.endpoint import QUIET_RULES, RULES, Endpointer, Rules
from cortado.model.streaming.interface import Rows, Samples, StreamingRecognizer
from cortado.model.streaming.snapshot import Snapshot, SnapshotError
from cortado.model.streaming.update import Results, Update
from cortado.model.streaming.utterances import Parting, Utterances
from cortado.model.streaming.vad import SPEECH, Vad


class Beginning(NamedTuple):
    """A stream that has a row before its first step there."""

    row: int
    rules: Rules
    snapshot: Snapshot | None  # of the stream, if it goes on


class Batch(NamedTuple):
    """The next step of each of R streams."""

    steps: Steps
    beginnings: list[Beginning]  # those of them that take their first step here


class Output(NamedTuple):
    """What a step gave R streams."""

    emissions: Emissions
    parting: Parting


class Pool:
    """Rows for S streams, each free or a stream's."""

    def __init__(
        self,
        recognizer: StreamingRecognizer,
        streams: int,
        *,
        threads: int | None = None,
        rules: Rules | None = None,
        vad: Vad | None = None,
    ) -> None:
        """Make free rows.

        Args:
            recognizer: what is heard with.
            streams: how many rows.
            threads: of the recogniser.
            rules: of utterances, the usual ones if None; with () they do not end.
            vad: what hears the streams too, where rules ask for quiet.

        Raises:
            ValueError: a rule asks for quiet, and nothing hears it.
        """
        rules = (QUIET_RULES if vad else RULES) if rules is None else rules
        if vad is None and _listening(rules):
            raise ValueError("expected a voice activity detector for rules with quiet, got none")
        self.recognizer, self._rules = recognizer, rules
        self.stepper = recognizer.stepper(streams, threads)
        self._buffer = Buffer(streams, recognizer.flush_steps)
        self._endpointer = Endpointer(streams)
        self._utterances = Utterances(streams, recognizer.vocabulary, recognizer.delay_steps)
        self._vad = vad
        self._detector = vad.stepper(streams) if vad else None
        self._free = list(reversed(range(streams)))
        self._fresh = np.zeros(streams, np.bool_)  # the row's state is the last owner's
        self._beginnings: dict[int, Beginning] = {}

    @property
    def free(self) -> int:
        """The number of free rows."""
        return len(self._free)

    def open(self, *, endpoints: bool = True, snapshot: Snapshot | None = None) -> int:
        """Return the row of a new stream, parted by the pool's rules with `endpoints`, or of one
        that goes on by its own.

        Raises:
            SnapshotError: the snapshot is of another model or detector.
        """
        if snapshot is not None:
            self.check(snapshot)
        row = self._free.pop()
        self._buffer.open(row)
        rules = snapshot.rules if snapshot else self._rules if endpoints else ()
        self._beginnings[row], self._fresh[row] = Beginning(row, rules, snapshot), True
        if snapshot is not None:
            counts = snapshot.received, snapshot.steps, snapshot.flush
            self._buffer.restore(row, *counts, snapshot.samples)
        return row

    def close(self, row: int) -> None:
        """Free a row; what is under way of its stream is nobody's."""
        self._buffer.close(row)
        self._fresh[row] = False
        self._beginnings.pop(row, None)
        self._free.append(row)

    def push(self, row: int, samples: Samples) -> range:
        """Let a stream hear (N,) samples at 16 kHz; return the steps that they complete.

        Raises:
            ValueError: not one-dimensional float32, or the input has ended.
        """
        return self._buffer.push(row, samples)

    def end(self, row: int) -> range:
        """Let a stream hear only silence now, which brings out what it has heard; return steps."""
        return self._buffer.end(row)

    def waiting(self, row: int) -> int:
        """Return the samples of a stream that wait for a step."""
        return self._buffer.waiting(row)

    def complete(self, row: int) -> int:
        """Return how many steps of a stream are complete: those taken and those that wait."""
        return self._buffer.complete(row)

    def taken(self, rows: Rows) -> NDArray[np.int64]:
        """Return (R,) steps of streams that were taken."""
        return self._buffer.taken(rows)

    def drained(self, row: int) -> bool:
        """Return whether a stream may be suspended: every whole step is done, none is to come."""
        return self._buffer.drained(row)

    def position(self, row: int) -> float:
        """Return the seconds of the input on which a stream's characters so far rest."""
        return float(self._buffer.positions(np.array([row]))[0])

    def ready(self) -> Rows:
        """Return the rows that have a step."""
        return self._buffer.ready()

    def take(self, rows: Rows) -> Batch:
        """Take the next step of ready rows."""
        return Batch(self._buffer.take(rows), self._begun(rows))

    def _begun(self, rows: Rows) -> list[Beginning]:
        """Return those of (R,) rows whose streams have not begun; they have now."""
        fresh = rows[self._fresh[rows]]
        self._fresh[fresh] = False
        return [self._beginnings.pop(row) for row in fresh.tolist()]

    def step(self, batch: Batch) -> Output:
        """Return what a batch of steps gives. This alone computes, and changes what it alone has.

        Where an utterance ends, the decoder begins anew, which keeps what it has written from
        weighing on what comes next. Features and encoder go on: they have heard the beginning of
        the next word already.
        """
        self._begin(batch.beginnings)
        rows = batch.steps.rows
        emissions = self.stepper.step(batch.steps.samples, rows)
        ended = self._ended(batch.steps, emissions)
        if ended.any():
            emissions = emissions.followed(ended, self.stepper.renew(rows[ended]))
        parting = self._utterances.step(rows, emissions, batch.steps.numbers, ended)
        return Output(emissions, parting)

    def _begin(self, beginnings: list[Beginning]) -> None:
        """Give rows their streams' states."""
        if not beginnings:
            return
        rows = np.array([one.row for one in beginnings])
        self.stepper.reset(rows)
        self._endpointer.reset(rows, [one.rules for one in beginnings])
        self._utterances.reset(rows)
        if self._detector is not None:
            self._detector.reset(rows)
        for row, _, snapshot in beginnings:
            if snapshot is not None:
                self.stepper.restore(row, snapshot.state)
                self._endpointer.restore(row, snapshot.endpoint)
                self._utterances.restore(row, snapshot.utterance)
                if snapshot.heard and self._detector is not None:
                    self._detector.restore(row, snapshot.heard)

    def _ended(self, steps: Steps, emissions: Emissions) -> NDArray[np.bool_]:
        """Return (R,) which utterances end with the step."""
        ended = self._endpointer.parted(steps.rows)
        rows = steps.rows[ended]
        if not len(rows):
            return ended
        if len(rows) < len(ended):
            emissions = Emissions(*(part[ended] for part in emissions))
        quiet = None
        if self._detector is not None:
            listening = self._endpointer.listening(rows)
            quiet = np.zeros(len(rows), np.bool_)
            heard = steps.samples[ended][listening]
            quiet[listening] = self._detector.step(heard, rows[listening]) < SPEECH
        ended[ended] = self._endpointer.step(rows, emissions, self.stepper.blanks(rows), quiet)
        return ended

    def settle(self, batch: Batch, output: Output) -> Results:
        """Count a batch's steps as done; return what there is to say of those still owned."""
        rows, (emissions, parting) = batch.steps.rows, output
        owned = self._buffer.count(batch.steps)
        finished = self._buffer.finished(rows) & owned
        news = np.flatnonzero((emissions.emitted | (parting.utterances >= 0)) & owned | finished)
        return Results(
            rows[news],
            batch.steps.numbers[news],
            emissions.of(news),
            parting.of(news),
            self._buffer.positions(rows[news]),
            finished[news],
        )

    def drop(self, batch: Batch) -> Rows:
        """Count a batch's steps, which failed, as done; return the rows that are still owned."""
        return batch.steps.rows[self._buffer.count(batch.steps)]

    def updates(self, results: Results) -> Iterator[tuple[int, Update]]:
        """Yield each row of some results with its update."""
        return results.updates(self.recognizer.vocabulary, self.recognizer.delay_steps)

    def advance(self) -> Iterator[tuple[int, Update]]:
        """Take one step of every stream that has one; yield rows with their updates."""
        if len(rows := self.ready()):
            batch = self.take(rows)
            yield from self.updates(self.settle(batch, self.step(batch)))

    def snapshot(self, row: int) -> Snapshot:
        """Return a stream, to go on in any pool of the same recogniser; no step is under way."""
        self._begin(self._begun(np.array([row])))  # it may have had no step at all
        received, steps, flush, samples = self._buffer.snapshot(row)
        rules = self._endpointer.rules(row)
        listening = self._vad is not None and self._detector is not None and _listening(rules)
        return Snapshot(
            backend=self.recognizer.name,
            model=self.recognizer.digest.hex(),
            detector=self._vad.digest.hex() if self._vad and listening else "",
            rules=rules,
            received=received,
            steps=steps,
            flush=flush,
            endpoint=self._endpointer.snapshot(row),
            utterance=self._utterances.snapshot(row),
            samples=samples,
            state=self.stepper.snapshot(row),
            heard=self._detector.snapshot(row) if self._detector and listening else b"",
        )

    def check(self, snapshot: Snapshot) -> None:
        """Look whether a stream can go on here.

        Raises:
            SnapshotError: it is of another backend, model or detector.
        """
        own = self.recognizer.name, self.recognizer.digest.hex()
        pairs = zip(("backend", "model"), own, (snapshot.backend, snapshot.model), strict=True)
        for name, expected, found in pairs:
            if expected != found:
                raise SnapshotError(f"expected a stream of the {name} {expected}, got {found}")
        if (size := len(snapshot.state)) != self.stepper.bytes_per_stream:
            raise SnapshotError(
                f"expected a state of {self.stepper.bytes_per_stream} bytes, got {size}"
            )
        if not snapshot.detector:
            return
        if self._vad is None:
            raise SnapshotError(
                "expected a stream that began without a voice activity detector, got one that began"
                " with it: resume it where --vad is given"
            )
        if snapshot.detector != self._vad.digest.hex():
            raise SnapshotError("expected a stream of this voice activity detector, got another's")


def _listening(rules: Rules) -> bool:
    """Return whether rules need a voice activity detector."""
    return any(rule.quiet for rule in rules)
