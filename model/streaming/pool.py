"""A pool of S streams, one a row: audio in, emissions and utterances out, and snapshots.

A live stream is a pool of one row, a batch of files a pool of many, a server's engine a pool of
thousands. A step of all streams with enough audio has three calls, so that an engine can hold its
lock during the first and the last, and not while the model computes:

    batch = pool.take(pool.ready())
    output = pool.step(batch)
    results = pool.settle(batch, output)

A pool knows nothing of threads.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows, Samples
from cortado.model.emission import Emissions
from cortado.model.search.phrases import Expected, PhrasesError, expecting
from cortado.model.streaming.alternatives import Alternatives, WordEnd
from cortado.model.streaming.buffer import Buffer, Steps
from cortado.model.streaming.endpoint import (
    QUIET_RULES,
    RULES,
    Endpointer,
    Rules,
    needs_vad,
    rules_after,
)
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.options import DEFAULT_OPTIONS, StreamOptions
from cortado.model.streaming.snapshot import Snapshot, SnapshotError
from cortado.model.streaming.update import Results, Update
from cortado.model.streaming.utterances import Segmentation, Utterances
from cortado.model.streaming.vad import SPEECH, Vad

LISTS = 64  # of phrases, whose trees are remembered for the next streams that expect them


class Beginning(NamedTuple):
    """A stream that was opened in a row and has not been stepped there yet."""

    row: int
    rules: Rules
    snapshot: Snapshot | None  # to resume from, if any
    phrases: Expected | None  # that a new stream expects, if any
    alternatives: int  # of each word that a new stream asks for


class Batch(NamedTuple):
    """The next step of each of R streams."""

    steps: Steps
    beginnings: list[Beginning]  # of the streams whose first step this is


class Output(NamedTuple):
    """The results of a step of R streams."""

    emissions: Emissions
    segmentation: Segmentation
    word_ends: Mapping[int, tuple[WordEnd, ...]]  # by place among the R


class Pool:
    """S rows, each free or taken by a stream."""

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
            recognizer: the model in a backend.
            streams: number of rows.
            threads: of the recogniser.
            rules: endpoint rules, the default ones if None; with () utterances do not end.
            vad: the voice activity detector, for rules with quiet.

        Raises:
            ValueError: a rule has quiet, and there is no detector.
        """
        rules = (QUIET_RULES if vad else RULES) if rules is None else rules
        if vad is None and needs_vad(rules):
            raise ValueError("expected a voice activity detector for rules with quiet, got none")
        self.recognizer, self._rules = recognizer, rules
        self.stepper = recognizer.stepper(streams, threads)
        self._buffer = Buffer(streams, recognizer.flush_steps)
        self._endpointer = Endpointer(streams)
        self._utterances = Utterances(streams, recognizer.vocabulary, recognizer.delay_steps)
        self._alternatives = Alternatives(streams, recognizer.vocabulary, recognizer.beam)
        self._vad = vad
        self._detector = vad.stepper(streams) if vad else None
        self._free = list(reversed(range(streams)))
        self._fresh = np.zeros(streams, np.bool_)  # the row's state is still the last stream's
        self._beginnings: dict[int, Beginning] = {}
        self.expected = lru_cache(LISTS)(partial(_expected, recognizer))

    def warm(self) -> None:
        """Compile what only some streams need, so that none waits for it; every row is free."""
        self._alternatives.warm(self.stepper)

    @property
    def free(self) -> int:
        """The number of free rows."""
        return len(self._free)

    def open(
        self, options: StreamOptions = DEFAULT_OPTIONS, *, snapshot: Snapshot | None = None
    ) -> int:
        """Open a new stream, or resume one from a snapshot; return its row.

        Raises:
            SnapshotError: the snapshot is of another model or detector.
            PhrasesError: the phrases are too many, or there is no search that could weigh them.
            ValueError: too short a silence.
        """
        if snapshot is not None:
            self.check(snapshot)
        phrases = self.expected(*options.phrases)
        rules = snapshot.rules if snapshot else self._rules_of(options)
        row = self._free.pop()
        self._buffer.open(row)
        beginning = Beginning(row, rules, snapshot, phrases, options.alternatives)
        self._beginnings[row], self._fresh[row] = beginning, True
        if snapshot is not None:
            counts = snapshot.received, snapshot.steps, snapshot.flush
            self._buffer.restore(row, *counts, snapshot.samples)
        return row

    def _rules_of(self, options: StreamOptions) -> Rules:
        """Return the endpoint rules of a new stream."""
        if not options.endpoints:
            return ()
        if options.silence is None:
            return self._rules
        return rules_after(options.silence, has_detector=self._vad is not None)

    def close(self, row: int) -> None:
        """Free a row; results of a step in progress are dropped."""
        self._buffer.close(row)
        self._fresh[row] = False
        self._beginnings.pop(row, None)
        self._free.append(row)

    def push(self, row: int, samples: Samples) -> range:
        """Add (N,) samples at 16 kHz to a stream; return the numbers of the steps they complete.

        Raises:
            ValueError: not one-dimensional float32, or the input has ended.
        """
        return self._buffer.push(row, samples)

    def end(self, row: int) -> range:
        """End a stream's input; return the numbers of its last steps, which flush it by silence."""
        return self._buffer.end(row)

    def waiting(self, row: int) -> int:
        """Return the number of a stream's samples that wait for a step."""
        return self._buffer.waiting(row)

    def complete(self, row: int) -> int:
        """Return how many steps of a stream are complete: those taken and those that wait."""
        return self._buffer.complete(row)

    def taken(self, rows: Rows) -> NDArray[np.int64]:
        """Return (R,) steps of streams that were taken."""
        return self._buffer.taken(rows)

    def drained(self, row: int) -> bool:
        """Return whether a stream can be suspended: all its whole steps are done."""
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
        """Return the beginnings among (R,) rows, and mark them as begun."""
        fresh = rows[self._fresh[rows]]
        self._fresh[fresh] = False
        return [self._beginnings.pop(row) for row in fresh.tolist()]

    def step(self, batch: Batch) -> Output:
        """Step a batch; return its results. Only this method runs the model and changes its state.

        Where an utterance ends, the decoder restarts, so that its text does not influence the next
        utterance, and in a pause so does the encoder, which has learnt from single utterances. They
        restart in long pauses, too, where an utterance has no character yet: they have learnt from
        utterances that begin soon.
        """
        self._begin(batch.beginnings)
        rows = batch.steps.rows
        emissions = self.stepper.step(batch.steps.samples, rows)
        ended = self._ended(batch.steps, emissions)
        begins = ended | self._wait(rows)
        if begins.any():
            emissions = emissions.followed(begins, self.stepper.restart(rows[begins]))
        segmentation = self._utterances.step(rows, emissions, batch.steps.numbers, ended)
        closed = ended | batch.steps.last
        word_ends = self._alternatives.step(rows, emissions, closed, self.stepper)
        return Output(emissions, segmentation, word_ends)

    def _begin(self, beginnings: list[Beginning]) -> None:
        """Set the rows of new streams to their first states."""
        if not beginnings:
            return
        rows = np.array([one.row for one in beginnings])
        self.stepper.reset(rows)
        self._endpointer.reset(rows, [one.rules for one in beginnings])
        self._utterances.reset(rows)
        self._alternatives.reset(rows)
        if self._detector is not None:
            self._detector.reset(rows)
        for row, _, snapshot, phrases, alternatives in beginnings:
            self._alternatives.want(row, alternatives)
            if phrases is not None:
                self.stepper.expect(row, phrases)
            if snapshot is not None:
                self.stepper.restore(row, snapshot.state)
                self._endpointer.restore(row, snapshot.endpoint)
                self._utterances.restore(row, snapshot.utterance)
                self._alternatives.restore(row, snapshot.alternatives)
                if snapshot.heard and self._detector is not None:
                    self._detector.restore(row, snapshot.heard)

    def _ended(self, steps: Steps, emissions: Emissions) -> NDArray[np.bool_]:
        """Return (R,) which utterances end with the step."""
        ended = self._endpointer.have_rules(steps.rows)
        rows = steps.rows[ended]
        if not len(rows):
            return ended
        if len(rows) < len(ended):
            emissions = Emissions(*(part[ended] for part in emissions))
        quiet = None
        if self._detector is not None:
            with_vad = self._endpointer.need_vad(rows)
            quiet = np.zeros(len(rows), np.bool_)
            audio = steps.samples[ended][with_vad]
            quiet[with_vad] = self._detector.step(audio, rows[with_vad]) < SPEECH
        heard = self.stepper.pending(rows), self.stepper.blanks(rows), quiet
        ended[ended] = self._endpointer.step(rows, emissions, *heard)
        return ended

    def _wait(self, rows: Rows) -> NDArray[np.bool_]:
        """Return (R,) which utterances wait in a long pause for their first character."""
        wait = self._endpointer.wait(rows)
        if wait.any():
            wait[wait] = self.stepper.pauses(rows[wait])
        return wait

    def settle(self, batch: Batch, output: Output) -> Results:
        """Count a batch's steps as done; return the results of streams that are still open.

        The silence that follows a stream's input ends no utterance: the stream's end ends the last.
        """
        rows, (emissions, segmentation, word_ends) = batch.steps.rows, output
        segmentation = segmentation.open(self._buffer.beyond(batch.steps))
        owned = self._buffer.count(batch.steps)
        finished = self._buffer.finished(rows) & owned
        told = emissions.emitted | (segmentation.utterances >= 0)
        told[list(word_ends)] = True  # the last word of a stream may end after its last character
        news = np.flatnonzero(told & owned | finished)
        return Results(
            rows[news],
            batch.steps.numbers[news],
            emissions.of(news),
            segmentation.of(news),
            self._buffer.positions(rows[news]),
            finished[news],
            {n: word_ends[old] for n, old in enumerate(news.tolist()) if old in word_ends},
        )

    def drop(self, batch: Batch) -> Rows:
        """Count a batch's failed steps as done; return the rows whose streams are still open.

        What waits in them is dropped, so that they are in no further batch.
        """
        rows = batch.steps.rows[self._buffer.count(batch.steps)]
        self._buffer.drop(rows)
        return rows

    def updates(self, results: Results) -> Iterator[tuple[int, Update]]:
        """Yield each row of some results with its update."""
        return results.updates(self.recognizer.vocabulary, self.recognizer.delay_steps)

    def advance(self) -> Iterator[tuple[int, Update]]:
        """Take one step of every stream that has one; yield rows with their updates."""
        if len(rows := self.ready()):
            batch = self.take(rows)
            yield from self.updates(self.settle(batch, self.step(batch)))

    def await_commit(self, rows: Rows) -> list[bool]:
        """Return for each of (R,) rows whether its best hypothesis has an uncommitted symbol."""
        self._begin(self._begun(rows))  # they may not have been stepped yet
        return (self.stepper.pending(rows) >= 0).tolist()

    def snapshot(self, row: int) -> Snapshot:
        """Return a stream's snapshot, for any pool of the same recogniser, between its steps."""
        self._begin(self._begun(np.array([row])))  # it may not have been stepped yet
        received, steps, flush, samples = self._buffer.snapshot(row)
        rules = self._endpointer.rules(row)
        detector, heard = "", b""
        if self._vad and self._detector and needs_vad(rules):
            detector, heard = self._vad.digest.hex(), self._detector.snapshot(row)
        return Snapshot(
            backend=self.recognizer.name,
            model=self.recognizer.digest.hex(),
            detector=detector,
            rules=rules,
            received=received,
            steps=steps,
            flush=flush,
            endpoint=self._endpointer.snapshot(row),
            utterance=self._utterances.snapshot(row),
            alternatives=self._alternatives.snapshot(row),
            samples=samples,
            state=self.stepper.snapshot(row),
            heard=heard,
        )

    def check(self, snapshot: Snapshot) -> None:
        """Check that a snapshot can be resumed in this pool.

        Raises:
            SnapshotError: it is of another backend, model or detector.
        """
        own = self.recognizer.name, self.recognizer.digest.hex()
        pairs = zip(("backend", "model"), own, (snapshot.backend, snapshot.model), strict=True)
        for name, expected, found in pairs:
            if expected != found:
                raise SnapshotError(f"expected a stream of the {name} {expected}, got {found}")
        if not self.stepper.fits(snapshot.state):
            most = self.stepper.bytes_per_stream
            raise SnapshotError(
                f"expected a whole state, of at most {most} bytes, got {len(snapshot.state)} bytes"
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


def _expected(recognizer: StreamingRecognizer, *phrases: str) -> Expected | None:
    """Return the tree of phrases that a stream expects, and how they are pronounced.

    Raises:
        PhrasesError: the phrases are too many, or there is no search that could weigh them.
    """
    if not phrases:
        return None
    beam = recognizer.beam
    if beam.width == 1:
        raise PhrasesError("expected a search for phrases, got the greedy scan (--beam 1)")
    spells = beam.phones > 0 and beam.words.spells
    pronounce = recognizer.g2p.pronounce if spells else None
    return expecting(phrases, recognizer.vocabulary, pronounce)
