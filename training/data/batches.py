"""Batches of utterances of similar length, drawn by the seed and the step alone."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.emission import FLUSH_STEPS
from cortado.model.features.framing import FRAMES_PER_STEP, HOP, SAMPLE_RATE
from cortado.model.features.speaker import Statistics, standardised
from cortado.model.vocabulary import Vocabulary
from cortado.training.alignment.hmm import SILENCE
from cortado.training.data.augment import (
    Augmentation,
    augmented,
    for_one_utterance,
    retimed,
    with_lead,
    with_trail,
)
from cortado.training.data.log_mel_cache import CachedCorpus, CachedUtterance
from cortado.training.data.non_speech import FLOOR, pause_like, silence
from cortado.training.data.speakers import augmented_statistics, utterance_statistics
from cortado.training.data.tied_states import UNKNOWN, States, encoder_targets, retimed_states
from cortado.training.data.voices import Who, who

Voice = tuple[Who, float]  # a speaker, and the speed at which recordings are played
Parts = tuple[NDArray[np.float32], ...]  # frames, one part after another

POOL = 512  # utterances drawn at once, sorted by length and cut into batches
FRAMES_PER_SECOND = SAMPLE_RATE // HOP  # 100
LEAD = (100, 500)  # frames without speech before an utterance, or behind it
SILENT = (50, 600)  # frames without speech in place of an utterance
PAUSE, LONGEST_PAUSE = 100, 400  # frames between two utterances of a speaker: mean, most


class Batch(NamedTuple):
    """Padded utterances. The padding is digital silence, as at a stream's end."""

    logmel: Tensor  # (B, T, F), standardised where the sampler has the speakers' statistics
    lengths: Tensor  # (B,) encoder frames, the flush included
    targets: Tensor  # (B, U) symbols, 0 on padding
    target_lengths: Tensor  # (B,)
    states: Tensor | None = None  # (B, T') tied states, UNKNOWN where none is known


class Drawn(NamedTuple):
    """An utterance of a pool."""

    corpus: int  # index; -1 for silence
    utterance: int  # index in the corpus; 0 for silence
    frames: int
    lead: int = 0  # frames without speech before it, counted in `frames`; below 0 left out of it
    trail: int = 0  # frames without speech behind it, counted in `frames`
    after: int | None = None  # the utterance that it follows, of the same speaker
    pause: int = 0  # frames between the two; both are counted in `frames`

    @property
    def said(self) -> list[int]:
        """The utterances in their order."""
        return [self.utterance] if self.after is None else [self.after, self.utterance]


@dataclass(frozen=True)
class Sampler:
    """Draws pools of utterances and cuts them into batches, the same on every process."""

    corpora: Sequence[CachedCorpus]
    weights: Sequence[float]
    vocabulary: Vocabulary
    batch_frames: int
    max_seconds: float  # longer utterances are left out
    seed: int
    processes: int = 1  # they wait for each other, so their batches are of similar length
    max_utterances: int | None = None  # in a batch
    speakers: Sequence[Sequence[Statistics]] = ()  # of each corpus's utterances; or none
    states: Sequence[States] = ()  # of each corpus' frames; none: batches have none
    lookahead: int = 0  # frames of 10 ms that an encoder frame looks ahead
    phone_delay: int = 0  # of the recipe

    def __post_init__(self) -> None:
        self._check_lengths(self.max_seconds)

    def _check_lengths(self, seconds: float) -> None:
        for corpus, weight in zip(self.corpora, self.weights, strict=True):
            shortest = min((u.frames for u in corpus.utterances), default=0) / FRAMES_PER_SECOND
            if weight and shortest > seconds:
                raise ValueError(
                    f"expected an utterance of at most {seconds:g} s in each corpus, "
                    f"got none in one of {len(corpus)}"
                )

    def pool(
        self,
        number: int,
        config: Augmentation,
        max_seconds: float | None = None,
        views: int = 1,
    ) -> list[list[Drawn]]:
        """Return the batches of a pool, in random order.

        Args:
            number: of the pool.
            config: its shares of silence, of leads and of trails.
            max_seconds: longer utterances are left out, in place of the sampler's own.
            views: of each utterance that a batch is to hold.

        Raises:
            ValueError: a corpus has no utterance as short, or fewer batches than processes.
        """
        max_seconds = self.max_seconds if max_seconds is None else max_seconds
        self._check_lengths(max_seconds)
        rng = np.random.default_rng([self.seed, 1, number])
        shares = np.array(self.weights) / sum(self.weights)
        short = [np.flatnonzero(x <= max_seconds * FRAMES_PER_SECOND) for x in self._frames]
        drawn: list[Drawn] = []
        while len(drawn) < POOL:
            if rng.random() < config.silence:
                drawn.append(Drawn(-1, 0, int(rng.integers(*SILENT))))
                continue
            corpus = int(rng.choice(len(shares), p=shares))
            index = int(rng.choice(short[corpus]))
            frames = self.corpora[corpus].utterances[index].frames
            lead = -int(rng.integers(config.shift + 1)) if config.shift else 0
            if rng.random() < config.lead:
                lead = int(rng.integers(*LEAD))
            trailed = config.trail > 0 and rng.random() < config.trail
            trail = int(rng.integers(*LEAD)) if trailed else 0
            one = Drawn(corpus, index, frames + lead + trail, lead, trail)
            if config.follow and rng.random() < config.follow:
                one = self._following(one, max_seconds, rng)
            drawn.append(one)
        batches = self._cut(sorted(drawn, key=lambda utterance: utterance.frames), views)
        n = self.processes
        if len(batches) < n:
            raise ValueError(
                f"expected a batch for each of {n} processes, got {len(batches)} from {POOL} "
                "utterances: batch_seconds is too large"
            )
        first = int(rng.integers(len(batches) % n + 1))  # batches without a full group are dropped
        groups = [batches[k : k + n] for k in range(first, len(batches) - n + 1, n)]
        rng.shuffle(groups)
        return [batch for group in groups for batch in group]

    def _following(self, drawn: Drawn, max_seconds: float, rng: np.random.Generator) -> Drawn:
        """Return an utterance behind another of its speaker, if both are short enough."""
        utterances = self.corpora[drawn.corpus].utterances
        own = self._of_speaker[drawn.corpus][_voice(utterances[drawn.utterance])]
        after = own[int(rng.integers(len(own)))]
        pause = min(int(rng.exponential(PAUSE)), LONGEST_PAUSE)
        frames = drawn.frames + utterances[after].frames + pause
        if after == drawn.utterance or frames > max_seconds * FRAMES_PER_SECOND:
            return drawn
        return drawn._replace(frames=frames, after=after, pause=pause)

    @cached_property
    def _frames(self) -> list[NDArray[np.int64]]:
        """The frames of each utterance, for each corpus."""
        return [np.array([one.frames for one in corpus.utterances]) for corpus in self.corpora]

    @cached_property
    def _of_speaker(self) -> list[dict[Voice, list[int]]]:
        """The utterances of each speaker at each speed, for each corpus."""
        found = []
        for corpus in self.corpora:
            voices: dict[Voice, list[int]] = defaultdict(list)
            for index, utterance in enumerate(corpus.utterances):
                voices[_voice(utterance)].append(index)
            found.append(voices)
        return found

    def _cut(self, drawn: Sequence[Drawn], views: int) -> list[list[Drawn]]:
        """Return runs of utterances whose padded length and whose number fit the budget."""
        batches: list[list[Drawn]] = [[]]
        for utterance in drawn:
            padded = (len(batches[-1]) + 1) * utterance.frames * views
            limit = self.max_utterances
            full = limit is not None and len(batches[-1]) >= max(1, limit // views)
            if full or (batches[-1] and padded > self.batch_frames):
                batches.append([])
            batches[-1].append(utterance)
        return batches

    def load(
        self, drawn: Sequence[Drawn], config: Augmentation, seed: int, views: int = 1
    ) -> Batch:
        """Return a batch with its utterances augmented from the seed.

        With several views, the utterances of the first view come first. All views of an utterance
        have one tempo, lead and trail, and are otherwise augmented differently.
        """
        rng = np.random.default_rng([self.seed, 2, seed])
        frames: list[NDArray[np.float32]] = []
        targets: list[list[int]] = []
        each = [for_one_utterance(config, rng) for _ in drawn]
        timed = [self._timed(one, own, rng) for one, own in zip(drawn, each, strict=True)]
        both = list(drawn) * views
        for one, own, parts in zip(both, each * views, timed * views, strict=True):
            logmel = np.concatenate(parts)
            if one.corpus < 0:
                frames.append(logmel)
                targets.append([])
                continue
            corpus = self.corpora[one.corpus]
            babbling = int(rng.integers(len(corpus))) if config.babble else 0
            other = partial(corpus.logmel, babbling) if config.babble else None
            frames.append(augmented(logmel, other, own, rng))
            text = " ".join(corpus.utterances[index].text for index in one.said)
            targets.append(self.vocabulary.encode(text))
        between = [
            with_trail(with_lead(x, one.lead, rng), one.trail, rng)
            for one, x in zip(both, frames, strict=True)
        ]
        batch = collate(between, targets)
        if self.states:
            batch = batch._replace(states=self._states(both, timed * views, batch.logmel.shape[1]))
        if not self.speakers:
            return batch
        each_one = zip(both, frames, timed * views, strict=True)
        statistics = [self._statistics(*one) for one in each_one]
        return batch._replace(logmel=standardised(batch.logmel, statistics))

    def _timed(self, drawn: Drawn, config: Augmentation, rng: np.random.Generator) -> Parts:
        """Return an utterance's frames at the tempo that they have in the batch.

        They are those of the utterance that it follows, of the pause, and its own.
        """
        if drawn.corpus < 0:
            return (silence(drawn.frames, rng, self.corpora[0].bands),)
        corpus = self.corpora[drawn.corpus]
        own = retimed(corpus.logmel(drawn.utterance), config, rng)
        if drawn.after is None:
            return (own,)
        before = retimed(corpus.logmel(drawn.after), config, rng)
        return before, pause_like(own, drawn.pause, rng), own

    def _states(self, drawn: Sequence[Drawn], timed: Sequence[Parts], padded: int) -> Tensor:
        """Return the states (B, T / 4) of a batch's encoder frames."""
        found = np.full((len(drawn), padded // FRAMES_PER_STEP), UNKNOWN, np.int64)
        for row, one, parts in zip(found, drawn, timed, strict=True):
            if one.corpus < 0 or not len(self.states[one.corpus]):
                continue
            states = self.states[one.corpus]
            utterances = self.corpora[one.corpus].utterances
            said = [retimed_states(states, utterances[one.utterance], len(parts[-1]))]
            if one.after is not None:
                before = retimed_states(states, utterances[one.after], len(parts[0]))
                said = [before, np.full(one.pause, SILENCE, np.int16), *said]
            own = encoder_targets(np.concatenate(said), one.lead, self.lookahead, self.phone_delay)
            row[: len(own)] = own
        return torch.from_numpy(found)

    def _statistics(self, drawn: Drawn, frames: NDArray[np.float32], parts: Parts) -> Statistics:
        """Return the speaker's statistics that standardise an utterance's augmented frames."""
        if drawn.corpus < 0:
            return utterance_statistics(frames)
        if drawn.after is not None:  # the pause is no part of what was recorded
            before, pause, _ = map(len, parts)
            frames = np.delete(frames, slice(before, before + pause), axis=0)
        corpus = self.corpora[drawn.corpus]
        recorded = np.concatenate([corpus.logmel(index) for index in drawn.said])
        speaker = self.speakers[drawn.corpus][drawn.utterance]
        return augmented_statistics(speaker, recorded, frames)


def _voice(utterance: CachedUtterance) -> Voice:
    return who(utterance), utterance.speed


def collate(frames: Sequence[NDArray[np.float32]], targets: Sequence[Sequence[int]]) -> Batch:
    """Return a padded batch of (T, F) log-mel utterances and their symbols."""
    lengths = [-(-len(x) // FRAMES_PER_STEP) + FLUSH_STEPS for x in frames]
    shape = (len(frames), max(lengths) * FRAMES_PER_STEP, frames[0].shape[1])
    logmel = np.full(shape, FLOOR, np.float32)
    for k, x in enumerate(frames):
        logmel[k, : len(x)] = x
    symbols = torch.zeros(len(targets), max(1, *map(len, targets)), dtype=torch.long)
    for row, target in zip(symbols, targets, strict=True):
        row[: len(target)] = torch.tensor(target)
    counts = torch.tensor([len(target) for target in targets])
    return Batch(torch.from_numpy(logmel), torch.tensor(lengths), symbols, counts)
