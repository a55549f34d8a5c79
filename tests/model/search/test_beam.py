"""The search finds the likeliest text, commits it in time, and revises nothing."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.config import MAX_SYMBOLS_PER_STEP, Confidence
from cortado.model.emission import Emission, Emissions
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.search import beam as search
from cortado.model.search import ctc_score, look_ahead, phrases
from cortado.model.search import language_model as language
from cortado.model.search.commit import _rate, choose_by, commit, uncommitted
from cortado.model.search.hearing import begin_frame
from cortado.model.search.hypotheses import Hypotheses, candidates, hypotheses, restart
from cortado.model.search.language_model import NONE, Language
from cortado.model.search.neural_language_model import NONE as NO_NEURAL
from cortado.model.search.neural_language_model import histories
from cortado.model.search.phrases import expecting
from cortado.model.search.settings import (
    DEFAULT_BEAM,
    Beam,
    max_committed,
)
from cortado.model.search.survivors import prune
from cortado.model.search.voice import FIRST
from cortado.model.streaming.recordings import transcribe
from cortado.model.vocabulary import ENGLISH, Vocabulary
from cortado.tests.model.search.test_ctc_score import probability
from cortado.tests.model.search.words import spoken, with_neural
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.training.trigram import sentences
from cortado.training.language.file import SearchWeights

CAP = MAX_SYMBOLS_PER_STEP
SYMBOLS = 2
Text = tuple[int, ...]
Numbers = Callable[[Text, int], tuple[float, NDArray[np.float64]]]  # energy, logits

# gives up no text and commits none
PATIENT = Beam(
    max_wait=25,
    rival_wait=25,
    pruning=1e9,
    min_stop_probability=1e-30,
    min_further_stop_probability=1e-30,
    agreement=1.1,
)

lasting = settings(deadline=None, max_examples=40)


def decoder(seed: int) -> Numbers:
    """A decoder whose energies and logits are functions of the text so far and the frame."""

    @cache
    def numbers(text: Text, frame: int) -> tuple[float, NDArray[np.float64]]:
        random = np.random.default_rng([seed, frame, len(text), *text])
        return float(np.float32(random.normal(-0.5, 1.5))), random.normal(0, 1, SYMBOLS)

    return numbers


@cache
def ones() -> Language:
    return spoken("a ", sentences(1, 30, ("aa", "a", "aaaa")), SearchWeights(0.7, 0.4, -3.0, -1.0))


@cache
def ones_less_a_source() -> Language:
    source = np.random.default_rng(5).normal(0, 1, (SYMBOLS + 1, SYMBOLS + 1, SYMBOLS))
    return ones()._replace(source=source.astype(np.float32))


@cache
def ones_with_a_neural_model() -> Language:
    return with_neural(ones(), history=3)


def factors(words: Language, text: Text) -> NDArray[np.float64]:
    """What a language model multiplies the probability of each symbol with after a text."""
    found = np.zeros(SYMBOLS, np.float32)
    if words.weight:
        node, earlier, before, last = 0, 0, 0, 0
        for symbol in text:
            if symbol == words.space and node:
                earlier = before
            node, before, last = language.followed(words, node, before, last, symbol)
        fresh = look_ahead.known(words, SYMBOLS)
        look_ahead.weigh(words, node, before, last, np.float32(-np.inf), fresh, found)
    if words.neural.share > 0 and language.ends_word(words, node):
        memory, history = histories(words.neural), np.array([earlier], np.int32)
        found[words.space] += language.mixture_gain(words, memory, node, before, last, history)
    if len(words.source):
        older, newer = (-1, -1, *text)[-2:]
        found -= words.source[newer + 1, older + 1]
    return np.exp(found.astype(float))


def heard(seed: int, frame: int) -> NDArray[np.float32]:
    """The logits of the CTC head at a frame."""
    random = np.random.default_rng([seed, 1, frame])
    return random.normal(0, 2, SYMBOLS + 1).astype(np.float32)


def likelihoods(
    numbers: Numbers, frames: int, words: Language = NONE, letters: float = 1.0
) -> dict[Text, float]:
    """The probability of every text after so many frames, summed over all stops.

    That of a symbol is taken to the power `letters`.
    """
    found: dict[Text, float] = {(): 1.0}
    for frame in range(frames):
        after: dict[Text, float] = {}
        scanning = dict(found)
        for count in range(CAP + 1):
            further: dict[Text, float] = {}
            for text, p in scanning.items():
                energy, logits = numbers(text, frame)
                stop = 1 / (1 + np.exp(-energy))
                after[text] = after.get(text, 0.0) + p * (1 - stop)
                if count < CAP:
                    shares = (np.exp(logits) / np.exp(logits).sum()) ** letters
                    shares = shares * factors(words, text)
                    for symbol in range(SYMBOLS):
                        more = p * stop * shares[symbol]
                        further[*text, symbol] = further.get((*text, symbol), 0.0) + more
            scanning = further
        found = after
    return found


class Searched:
    """A stream searched over a decoder of numbers."""

    def __init__(self, numbers: Numbers, beam: Beam, seed: int = 0) -> None:
        self.numbers, self.beam, self.seed = numbers, beam, seed
        self.h = hypotheses(1, beam, CAP, SYMBOLS)
        self.e = candidates(1, beam, CAP, SYMBOLS)
        self.committed: list[tuple[int, int, int]] = []  # symbol, frame heard, frame committed
        self.frame = 0
        self.texts: list[Text] = [()] * beam.width

    def step(self) -> None:
        rows, e = np.zeros(1, np.int64), self.e
        written: list[Text] = []

        def text(entry: int) -> Text:
            count = e.written_count[0, entry]
            return (*self.texts[e.origins[0, entry]], *e.written[0, entry, :count].tolist())

        logits = heard(self.seed, self.frame)[None]
        scanning = begin_frame(rows, logits, self.beam, self.h, e)
        for count in range(CAP + 1):
            texts = [text(k) for _, k in e.scanning[:scanning]]
            energies = np.array([self.numbers(one, self.frame)[0] for one in texts], np.float32)
            stopping = search.stop(scanning, energies, count, CAP, self.beam, e)
            if not stopping:
                break
            texts = [text(k) for _, k in e.stopping[:stopping]]
            logits = np.array([self.numbers(one, self.frame)[1] for one in texts], np.float32)
            scanning = search.extend(stopping, logits, SYMBOLS, len(written), self.beam, e)
            written += texts
        moves = e.moves[: prune(rows, self.beam, self.h, e)]
        self.texts = [
            next(
                ((*written[slot], self._last(k)) for _, at, slot in moves.tolist() if at == k),
                before,
            )
            for k, before in enumerate(self.texts)
        ]
        shape = 3, 2, max_committed(self.beam, CAP)
        told = np.full(shape, -7, np.int32)
        commit(rows, self.beam, self.h, e, *(part[:1] for part in told))
        assert (told[:, 1] == -7).all()
        [emissions] = Emissions(*told[:, :1]).lists()
        self.committed += [(s, self.frame - late, self.frame) for s, late, _ in emissions]
        self.frame += 1

    def _last(self, k: int) -> int:
        h = self.h
        at = (h.first[0, 0] + h.lengths[0, k] - 1) % h.symbols.shape[2]
        return int(h.symbols[0, k, at])

    @property
    def best(self) -> Text:
        return self.texts[int(self.h.scores[0].argmax())]


@lasting
@given(
    seed=st.integers(0, 10_000),
    frames=st.integers(1, 4),
    made=st.sampled_from([lambda: NONE, ones, ones_less_a_source, ones_with_a_neural_model]),
    letters=st.sampled_from([1.0, 0.6]),
)
def test_a_search_that_gives_nothing_up_finds_the_probability_of_every_text(
    seed: int, frames: int, made: Callable[[], Language], letters: float
) -> None:
    numbers, words = decoder(seed), made()
    wanted = likelihoods(numbers, frames, words, letters)
    one = Searched(numbers, PATIENT._replace(width=600, letters=letters, words=words))
    for _ in range(frames):
        one.step()
    assert len(wanted) == (one.h.scores[0] > -np.inf).sum()
    most = max(wanted.values())
    for k, score in enumerate(one.h.scores[0]):
        if score > -np.inf:
            assert score == pytest.approx(np.log(wanted[one.texts[k]] / most), abs=2e-4)
    restart(np.zeros(1, np.int64), one.h)
    assert not one.h.words.any()
    assert not one.h.earlier.any()


def test_a_further_symbol_at_a_frame_takes_a_likelier_stop() -> None:
    def numbers(text: Text, frame: int) -> tuple[float, NDArray[np.float64]]:
        return np.log(0.4 / 0.6), np.zeros(SYMBOLS)

    for least, most in ((0.35, CAP), (0.45, 1)):
        one = Searched(numbers, PATIENT._replace(width=20, min_further_stop_probability=least))
        one.step()
        assert max(map(len, one.texts)) == most


@lasting
@given(seed=st.integers(0, 10_000), frames=st.integers(1, 2), unheard=st.sampled_from([0.1, 0.6]))
def test_the_ctc_head_weighs_the_text_of_every_hypothesis(
    seed: int, frames: int, unheard: float
) -> None:
    numbers, weight = decoder(seed), 0.7
    beam = PATIENT._replace(width=100, ctc=weight, unheard=unheard)
    one, head = Searched(numbers, beam, seed), np.zeros((frames, SYMBOLS + 1), np.float32)
    for frame in range(frames):
        one.step()
        ctc_score.probabilities(heard(seed, frame), head[frame])
    wanted = likelihoods(numbers, frames)
    for text in wanted:
        shorter = range(max(len(text) - ctc_score.LAG, 0), len(text) + 1)
        p = sum(unheard ** (len(text) - n) * probability(head, text[:n]) for n in shorter)
        wanted[text] *= max(p, 1e-30) ** weight
    most = max(wanted.values())
    alive = np.flatnonzero(one.h.scores[0] > -np.inf)
    assert len(alive) == len(wanted)
    alone, best = likelihoods(numbers, frames), one.texts[int(one.h.scores[0].argmax())]
    for k in alive:
        assert one.h.scores[0, k] == pytest.approx(np.log(wanted[one.texts[k]] / most), abs=2e-3)
        decoded = np.log(alone[one.texts[k]] / alone[best])
        assert one.h.decoded[0, k] == pytest.approx(decoded, abs=2e-3)


@lasting
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(2, 6),
    wait=st.integers(0, 5),
    more=st.integers(0, 5),
    agreement=st.floats(0.5, 1.0),
)
def test_what_is_committed_is_in_time_and_is_the_beginning_of_every_hypothesis(
    seed: int, width: int, wait: int, more: int, agreement: float
) -> None:
    rival_wait = wait + more
    beam = Beam(width, wait, rival_wait, 4.0, min_stop_probability=0.01, agreement=agreement)
    one = Searched(decoder(seed), beam)
    for _ in range(30):
        one.step()
        told = tuple(symbol for symbol, _, _ in one.committed)
        alive = [text for text, s in zip(one.texts, one.h.scores[0], strict=True) if s > -np.inf]
        assert all(text[: len(told)] == told for text in alive)
        assert len(set(alive)) == len(alive)
        assert max(one.h.scores[0]) <= 0
        [rest] = uncommitted(np.zeros(1, np.int64), beam, one.h).lists()
        assert (*told, *(one.symbol for one in rest)) == one.best
        assert all(one.late < wait for one in rest)
    assert all(committed - heard <= rival_wait for _, heard, committed in one.committed)
    assert all(a[1] <= b[1] for a, b in pairwise(one.committed))
    restart(np.zeros(1, np.int64), one.h)
    assert uncommitted(np.zeros(1, np.int64), beam, one.h).symbols.shape == (1, 0)


def test_a_likelier_beginning_wins_though_another_was_best_at_first() -> None:
    """A greedy scan would write 0; what follows makes 1 likelier."""

    def numbers(text: Text, frame: int) -> tuple[float, NDArray[np.float64]]:
        if not text:
            return (9.0 if frame == 0 else -9.0), np.array([0.55, 0.45])
        certain = text == (1,)
        return (3.0 if frame == 1 and len(text) == 1 else -9.0), (
            np.array([9.0, 0.0]) if certain else np.array([0.0, 0.0])
        )

    patient, hasty = (
        Searched(numbers, Beam(4, wait, wait, pruning=9.0, min_stop_probability=1e-3))
        for wait in (2, 0)
    )
    for one in (patient, hasty):
        for _ in range(4):
            one.step()
    assert [symbol for symbol, _, _ in patient.committed] == [1, 0]
    assert hasty.committed[0][0] == 0


def test_all_that_a_hypothesis_has_heard_is_committed_once_it_is_the_best() -> None:
    """The best has heard nothing for twelve frames, then one is likelier that has heard much."""

    def numbers(text: Text, frame: int) -> tuple[float, NDArray[np.float64]]:
        if not text:  # which is likelier up to frame 12, where something was missed
            return {0: -0.2, 12: 20.0}.get(frame, -20.0), np.array([9.0, 0.0])
        return (20.0 if len(text) <= frame else -20.0), np.array([9.0, 0.0])  # one a frame

    one = Searched(
        numbers, Beam(width=6, max_wait=3, rival_wait=12, pruning=30.0, min_stop_probability=1e-6)
    )
    most = 0
    for _ in range(20):
        before = len(one.committed)
        one.step()
        most = max(most, len(one.committed) - before)
    assert most > 8


def two_of_a_symbol(beam: Beam) -> Hypotheses:
    """One stream's, of which the other lies a nat behind the best and has another symbol."""
    h = hypotheses(1, beam, CAP, SYMBOLS)
    h.scores[0], h.lengths[0], h.symbols[0, :, 0], h.clock[0] = (0, -1), 1, (0, 1), 3
    choose_by(h, 0, beam, histories(NO_NEURAL))
    return h


def only_committed(beam: Beam, h: Hypotheses) -> Emission:
    """The symbol that is committed, which is the one that was not yet."""
    row, found = np.zeros(1, np.int64), Emissions.nothing(1, max_committed(beam, CAP))
    choose_by(h, 0, beam, histories(NO_NEURAL))
    [[rest]] = uncommitted(row, beam, h).lists()
    commit(row, beam, h, candidates(1, beam, CAP, SYMBOLS), *found)
    [[committed]] = found.lists()
    assert committed == rest
    return committed


@pytest.mark.parametrize(
    ("numbers", "confidence"),
    [
        (Confidence(), 599),
        (Confidence(2.0, 0.5), 786),
        (Confidence(0.0, -9.0), 0),
        (Confidence(1.0, 0.0, wait=-4.0), 354),  # a quarter of it: it took half of the longest wait
        (Confidence(1.0, 0.0, strangeness=-2.0), 231),  # the voice is 0.8 nats stranger than usual
    ],
)
def test_a_symbol_is_as_sure_as_the_hypotheses_that_have_it(
    numbers: Confidence, confidence: int
) -> None:
    """Odds of e to 0.4, since scores are 1 nat apart."""
    beam = Beam(width=2, max_wait=4, agreement=0.5, confidence=numbers)
    h = two_of_a_symbol(beam)
    h.voice[0] = 8, 10 - FIRST
    committed = only_committed(beam, h)
    assert (committed.symbol, committed.late, committed.confidence) == (0, 2, confidence)


def test_no_stream_waits_for_what_rates_it_to_be_compiled_once_more() -> None:
    beam = Beam(width=2, max_wait=4, agreement=0.5)
    only_committed(beam, two_of_a_symbol(beam))
    counts = {str(signature[2]) for signature in _rate.signatures}
    assert counts == {"int64"}, "other types than commit's, which is compiled ahead"


@pytest.mark.parametrize(("deciding", "symbol"), [(1.0, 0), (0.6, 0), (0.4, 1)])
def test_the_decoder_counts_less_where_hypotheses_are_weighed(deciding: float, symbol: int) -> None:
    """The best is a nat ahead of the other one, the decoder alone two."""
    beam = Beam(width=2, max_wait=0, deciding=deciding)
    h = two_of_a_symbol(beam)
    h.decoded[0] = 0, -2
    assert only_committed(beam, h).symbol == symbol
    assert np.isfinite(h.scores[0]).tolist() == [symbol == 0, symbol == 1]


@pytest.mark.parametrize(
    ("weight", "since", "expected", "word"),
    [
        (1.0, 7, "", "goi"),
        (1.0, 8, "", "go"),
        (1.0, 8, "goi", "goi"),
        (0.0, 7, "goings", "goi"),  # without a language model, phrases still gain and lose
        (0.0, 8, "goings", "go"),
        (0.0, 8, "goi", "goi"),
    ],
)
def test_a_word_without_a_letter_for_long_counts_as_ended(
    weight: float, since: int, expected: str, word: str
) -> None:
    """The best hypothesis is in a word that goes on, the other is at the end of one."""
    words = spoken(ENGLISH, ["go going", "go"], SearchWeights(1.0, 0.0, -5.0, -1.0))
    beam = Beam(width=2, max_wait=0, words=words._replace(weight=weight))
    vocabulary = Vocabulary(ENGLISH)
    h = hypotheses(1, beam, CAP, len(ENGLISH))
    if expected:
        h.trees[0] = expecting([expected], vocabulary).tree
    for k, text in enumerate(("goi", "go")):
        h.lengths[0, k] = len(text)
        for n, symbol in enumerate(vocabulary.encode(text)):
            h.symbols[0, k, n] = symbol
            h.words[0, k] = language.followed(words, *h.words[0, k], symbol)
            if expected:
                h.phrase[0, k] = phrases.followed(h.trees[0], h.phrase[0, k], symbol)
    h.scores[0], h.clock[0] = (0, -0.5), 1 + since
    row, found = np.zeros(1, np.int64), Emissions.nothing(1, max_committed(beam, CAP))
    commit(row, beam, h, candidates(1, beam, CAP, len(ENGLISH)), *found)
    [committed] = found.lists()
    assert "".join(ENGLISH[one.symbol] for one in committed) == word


def test_a_wait_counts_for_no_more_than_the_longest() -> None:
    """Where all is committed at once, a symbol may still come late: of one that was not best."""
    beam = Beam(width=2, max_wait=0, confidence=Confidence(wait=-1.0))
    [[rest]] = uncommitted(np.zeros(1, np.int64), beam, two_of_a_symbol(beam)).lists()
    assert rest.confidence == round(1000 / (1 + np.exp(0.6)))


def test_the_voice_outlasts_an_utterance() -> None:
    one = Searched(decoder(1), Beam(width=3, ctc=0.5))
    for _ in range(4):
        one.step()
    before = one.h.voice.copy()
    restart(np.zeros(1, np.int64), one.h)
    assert before[0, 1] > 0
    assert (one.h.voice == before).all()
    assert not hypotheses(1, one.beam, CAP, SYMBOLS).voice.any()


def test_characters_say_how_late_they_were_committed() -> None:
    heard = transcribe(ReferenceRecognizer(untrained().recognizer, DEFAULT_BEAM), noise(3, 1.5))
    assert max(one.late for one in heard) == pytest.approx(DEFAULT_BEAM.max_wait * STEP_SECONDS)
    assert heard != transcribe(untrained(), noise(3, 1.5))


def test_a_search_that_needs_less_agreement_commits_earlier() -> None:
    earlier, beam = 0, Beam(6, 5, 8, pruning=4.0, min_stop_probability=0.01)
    for seed in range(30):
        sooner, later = (
            Searched(decoder(seed), beam._replace(agreement=agreement)) for agreement in (0.6, 0.95)
        )
        while sooner.committed == later.committed and later.frame < 30:
            sooner.step()
            later.step()
        assert sooner.committed[: len(later.committed)] == later.committed
        earlier += len(sooner.committed) > len(later.committed)
    assert earlier > 10
