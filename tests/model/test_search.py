"""The search finds the likeliest text, tells it in time, and takes nothing back."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cortado.model.backends.choice import choose
from cortado.model.backends.cpu.recognizer import FastRecognizer
from cortado.model.backends.reference import OnlineRecognizer, transcribe, transcribe_many
from cortado.model.config import MAX_SYMBOLS_PER_STEP
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.search import beam as search
from cortado.model.search import language_model as language
from cortado.model.search.beam import GREEDY, USUAL, Beam, asked_for, told_at_once
from cortado.model.search.language_model import NONE, Language
from cortado.model.streaming.endpoint import Rule
from cortado.model.streaming.listener import Listener
from cortado.model.streaming.live import LiveStream
from cortado.model.streaming.stream import FLUSH_STEPS, LATE, Character
from cortado.model.streaming.suspension import SnapshotError
from cortado.model.vocabulary import ENGLISH, Vocabulary
from cortado.tests.model.untrained import noise, untrained
from cortado.tests.training.trigram import sentences
from cortado.training.language_model import Numbers as Weights
from cortado.training.language_model import estimate, write

CAP = MAX_SYMBOLS_PER_STEP
SYMBOLS = 2
Text = tuple[int, ...]
Numbers = Callable[[Text, int], tuple[float, NDArray[np.float64]]]  # energy, logits

lasting = settings(deadline=None, max_examples=40)


def decoder(seed: int) -> Numbers:
    """A decoder whose energies and logits are functions of the text so far and the frame."""

    @cache
    def numbers(text: Text, frame: int) -> tuple[float, NDArray[np.float64]]:
        random = np.random.default_rng([seed, frame, len(text), *text])
        return float(np.float32(random.normal(-0.5, 1.5))), random.normal(0, 1, SYMBOLS)

    return numbers


def spoken(characters: str, texts: list[str], numbers: Weights) -> Language:
    """A language model of texts for a recogniser of characters."""
    letters = characters.replace(" ", "")
    with TemporaryDirectory() as folder:
        write(Path(folder) / "lm", estimate(texts, letters), letters, numbers)
        return language.read(Path(folder) / "lm", Vocabulary(characters))


@cache
def ones() -> Language:
    return spoken("a ", sentences(1, 30, ("aa", "a", "aaaa")), Weights(0.7, 0.4, -3.0, -1.0))


def factors(words: Language, text: Text) -> NDArray[np.float64]:
    """What a language model multiplies the probability of each symbol with after a text."""
    found = np.zeros(SYMBOLS, np.float32)
    if words.weight:
        node, before, last = 0, 0, 0
        for symbol in text:
            node, before, last = language.followed(words, node, before, last, symbol)
        language.weigh(words, node, before, last, np.float32(-np.inf), found)
    return np.exp(found.astype(float))


def likelihoods(numbers: Numbers, frames: int, words: Language = NONE) -> dict[Text, float]:
    """The probability of every text after so many frames, summed over all stops."""
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
                    shares = np.exp(logits) / np.exp(logits).sum() * factors(words, text)
                    for symbol in range(SYMBOLS):
                        more = p * stop * shares[symbol]
                        further[*text, symbol] = further.get((*text, symbol), 0.0) + more
            scanning = further
        found = after
    return found


class Searched:
    """A stream searched over a decoder of numbers."""

    def __init__(self, numbers: Numbers, beam: Beam) -> None:
        self.numbers, self.beam = numbers, beam
        self.h = search.hypotheses(1, beam, CAP)
        self.e = search.entries(1, beam, CAP)
        self.told: list[tuple[int, int, int]] = []  # symbol, frame heard, frame told
        self.frame = 0
        self.texts: list[Text] = [()] * beam.width

    def step(self) -> None:
        rows, e = np.zeros(1, np.int64), self.e
        written: list[Text] = []

        def text(entry: int) -> Text:
            count = e.added[0, entry]
            return (*self.texts[e.bases[0, entry]], *e.written[0, entry, :count].tolist())

        asked = search.begin(rows, self.h, e)
        for count in range(CAP + 1):
            texts = [text(k) for _, k in e.asked[:asked]]
            energies = np.array([self.numbers(one, self.frame)[0] for one in texts], np.float32)
            writing = search.divide(asked, energies, count < CAP, self.beam, e)
            if not writing:
                break
            texts = [text(k) for _, k in e.writing[:writing]]
            logits = np.array([self.numbers(one, self.frame)[1] for one in texts], np.float32)
            asked = search.extend(writing, logits, SYMBOLS, len(written), self.beam, e)
            written += texts
        moves = e.moves[: search.survive(rows, self.beam, self.h, e)]
        self.texts = [
            next(
                ((*written[slot], self._last(k)) for _, at, slot in moves.tolist() if at == k),
                before,
            )
            for k, before in enumerate(self.texts)
        ]
        told = np.full((2, told_at_once(self.beam, CAP)), -7, np.int32)
        search.tell(rows, self.beam, self.h, told[:1])
        assert (told[1] == -7).all()
        self.told += [(s % LATE, self.frame - s // LATE, self.frame) for s in told[0] if s >= 0]
        self.frame += 1

    def _last(self, k: int) -> int:
        h = self.h
        at = (h.first[0, 0] + h.lengths[0, k] - 1) % h.symbols.shape[2]
        return int(h.symbols[0, k, at])

    @property
    def best(self) -> Text:
        return self.texts[int(self.h.scores[0].argmax())]


@lasting
@given(seed=st.integers(0, 10_000), frames=st.integers(1, 4), weighs=st.booleans())
def test_a_search_that_gives_nothing_up_finds_the_probability_of_every_text(
    seed: int, frames: int, weighs: bool
) -> None:
    numbers, words = decoder(seed), ones() if weighs else NONE
    wanted = likelihoods(numbers, frames, words)
    beam = Beam(width=600, hold=25, grace=25, cut=1e9, floor=1e-30, sure=1.1, words=words)
    one = Searched(numbers, beam)
    for _ in range(frames):
        one.step()
    assert len(wanted) == (one.h.scores[0] > -np.inf).sum()
    most = max(wanted.values())
    for k, score in enumerate(one.h.scores[0]):
        if score > -np.inf:
            assert score == pytest.approx(np.log(wanted[one.texts[k]] / most), abs=2e-4)
    search.renew(np.zeros(1, np.int64), one.h)
    assert not one.h.words.any()


@lasting
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(2, 6),
    hold=st.integers(0, 5),
    more=st.integers(0, 5),
    sure=st.floats(0.5, 1.0),
)
def test_what_is_told_is_in_time_and_is_the_beginning_of_every_hypothesis(
    seed: int, width: int, hold: int, more: int, sure: float
) -> None:
    grace = hold + more
    beam = Beam(width=width, hold=hold, grace=grace, cut=4.0, floor=0.01, sure=sure)
    one = Searched(decoder(seed), beam)
    for _ in range(30):
        one.step()
        told = tuple(symbol for symbol, _, _ in one.told)
        alive = [text for text, s in zip(one.texts, one.h.scores[0], strict=True) if s > -np.inf]
        assert all(text[: len(told)] == told for text in alive)
        assert len(set(alive)) == len(alive)
        assert max(one.h.scores[0]) <= 0
        rest = search.undecided(np.zeros(1, np.int64), one.h)[0]
        assert (*told, *(rest % LATE).tolist()) == one.best
        assert (rest // LATE < hold).all()
    assert all(told - heard <= grace for _, heard, told in one.told)
    assert all(a[1] <= b[1] for a, b in pairwise(one.told))
    search.renew(np.zeros(1, np.int64), one.h)
    assert search.undecided(np.zeros(1, np.int64), one.h).shape == (1, 0)


def test_a_likelier_beginning_wins_though_another_was_best_at_first() -> None:
    """A greedy scan would write 0; what follows makes 1 likelier."""

    def numbers(text: Text, frame: int) -> tuple[float, NDArray[np.float64]]:
        if not text:
            return (9.0 if frame == 0 else -9.0), np.array([0.55, 0.45])
        certain = text == (1,)
        return (3.0 if frame == 1 and len(text) == 1 else -9.0), (
            np.array([9.0, 0.0]) if certain else np.array([0.0, 0.0])
        )

    patient = Searched(numbers, Beam(width=4, hold=2, grace=2, cut=9.0, floor=1e-3))
    hasty = Searched(numbers, Beam(width=4, hold=0, grace=0, cut=9.0, floor=1e-3))
    for one in (patient, hasty):
        for _ in range(4):
            one.step()
    assert [symbol for symbol, _, _ in patient.told] == [1, 0]
    assert hasty.told[0][0] == 0


def test_all_that_a_hypothesis_has_heard_is_told_once_it_is_the_best() -> None:
    """The best has heard nothing for twelve frames, then one is likelier that has heard much."""

    def numbers(text: Text, frame: int) -> tuple[float, NDArray[np.float64]]:
        if not text:  # which is likelier up to frame 12, where something was missed
            return {0: -0.2, 12: 20.0}.get(frame, -20.0), np.array([9.0, 0.0])
        return (20.0 if len(text) <= frame else -20.0), np.array([9.0, 0.0])  # one a frame

    one = Searched(numbers, Beam(width=6, hold=3, grace=12, cut=30.0, floor=1e-6))
    most = 0
    for _ in range(20):
        before = len(one.told)
        one.step()
        most = max(most, len(one.told) - before)
    assert most > 8


@cache
def models() -> tuple[OnlineRecognizer, FastRecognizer]:
    """Both backends."""
    model = untrained().recognizer
    return OnlineRecognizer(model, USUAL), FastRecognizer(model, products="fp32", beam=USUAL)


@cache
def recording(number: int) -> NDArray[np.float32]:
    return noise(number, 0.9 + 0.2 * number)


@pytest.mark.timeout(900)  # the first use compiles
def test_both_backends_search_alike() -> None:
    reference, fast = models()
    heard = [transcribe(one, recording(3)) for one in (reference, fast)]
    assert heard[0] == heard[1]
    assert heard[0] != transcribe(OnlineRecognizer(reference.recognizer), recording(3))  # greedy
    assert max(one.late for one in heard[0]) == pytest.approx(USUAL.hold * STEP_SECONDS)
    assert reference.flush_steps == fast.flush_steps == FLUSH_STEPS + USUAL.grace


@pytest.mark.parametrize("backend", [0, 1])
def test_a_stream_does_not_feel_the_others(backend: int) -> None:
    online = models()[backend]
    alone = [transcribe(online, recording(k)) for k in range(5)]
    assert len({"".join(c.text for c in one) for one in alone}) == 5
    for streams in (2, 5):
        assert dict(transcribe_many(online, map(recording, range(5)), streams)) == dict(
            enumerate(alone)
        )


@pytest.mark.parametrize("backend", [0, 1])
def test_a_suspended_search_goes_on_where_it_was(backend: int) -> None:
    online, samples = models()[backend], recording(4)

    def taken(steps: Iterator[object]) -> list[object]:
        return list(steps)

    whole, first = LiveStream(online, ()), LiveStream(online, ())
    expected = taken(whole.push(samples)) + taken(whole.end())
    found = taken(first.push(samples[:9_999]))
    second = LiveStream.resume(online, first.suspend())
    assert found + taken(second.push(samples[9_999:])) + taken(second.end()) == expected


@pytest.mark.parametrize("backend", [0, 1])
def test_the_end_of_an_utterance_tells_what_is_undecided(backend: int) -> None:
    online, rows = models()[backend], np.zeros(1, np.int64)
    listener = Listener(online, 1, rules=(Rule(length=0.2),))
    steps = recording(7)[: 640 * 40].reshape(-1, 1, 640)
    stream, heard = online.stream(), []
    endings = 0
    for step in steps:
        symbols, ended = listener.step(step, rows)
        heard += stream.emitted(symbols[0].tolist())
        endings += int(ended[0])
        if ended[0]:  # all that was heard has been told
            assert listener.table.renew(rows).shape[1] == 0
    assert endings >= 2
    assert all(a.time <= b.time for a, b in pairwise(heard))


def test_a_wish_becomes_a_search() -> None:
    assert asked_for(None, None) is None
    assert asked_for(1, None) == GREEDY
    assert asked_for(4, None) == USUAL._replace(width=4)
    assert asked_for(None, 400) == USUAL._replace(hold=10, grace=12)
    for width, hold in ((0, None), (33, None), (None, -1), (None, 2001), (1, 400)):
        with pytest.raises(ValueError, match="expected"):
            asked_for(width, hold)


def test_a_backend_is_named_by_its_search() -> None:
    model = untrained().recognizer
    assert choose(model, "reference").name == "reference-beam8"
    assert choose(model, "reference", GREEDY).name == "reference"
    assert choose(model, "reference").digest != choose(model, "reference", GREEDY).digest


def test_characters_say_how_late_they_are() -> None:
    online = models()[0]
    one = online.stream()
    one.push(np.zeros(640 * 9, np.float32))
    for _ in range(9):
        one.next_step()
        last = one.emitted([4 + 3 * LATE, -1] if one.steps_done == 8 else [-1, -1])
    assert last == [Character(online.vocabulary.names[4], 0.16, 0.12)]


def test_a_search_that_is_sure_of_less_tells_it_earlier() -> None:
    earlier = 0
    for seed in range(30):
        sooner, later = (
            Searched(decoder(seed), Beam(width=6, hold=5, grace=8, cut=4.0, floor=0.01, sure=sure))
            for sure in (0.6, 0.95)
        )
        while sooner.told == later.told and later.frame < 30:  # until then, they are the same
            sooner.step()
            later.step()
        assert sooner.told[: len(later.told)] == later.told
        earlier += len(sooner.told) > len(later.told)
    assert earlier > 10


WEIGHTS = Weights(weight=1.5, bonus=8.0, leaving=-20.0, letter=-8.0)


@cache
def said(seed: int = 2, weight: float = WEIGHTS.weight) -> Language:
    """A language model that has much to say in what is written."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 4, 300)
    words = ["".join(random.choice([*ENGLISH[1:]], length)) for length in lengths]
    return spoken(ENGLISH, sentences(seed, 400, words), WEIGHTS._replace(weight=weight))


@cache
def weighing() -> tuple[OnlineRecognizer, FastRecognizer]:
    """Both backends, with a language model."""
    model, beam = untrained().recognizer, USUAL._replace(words=said())
    return OnlineRecognizer(model, beam), FastRecognizer(model, products="fp32", beam=beam)


@pytest.mark.timeout(900)  # the first use compiles
def test_both_backends_weigh_words_alike() -> None:
    heard = [[transcribe(one, recording(k)) for k in range(5)] for one in weighing()]
    assert heard[0] == heard[1]
    texts = ["".join(c.text for c in one) for one in heard[0]]
    assert all(" " in text.strip() for text in texts)
    assert len(set(texts)) > 2
    unweighed = [transcribe(models()[1], recording(k)) for k in range(5)]
    assert all(a != b for a, b in zip(heard[0], unweighed, strict=True))


@pytest.mark.parametrize("backend", [0, 1])
def test_a_stream_does_not_feel_the_words_of_others(backend: int) -> None:
    online = weighing()[backend]
    alone = {k: transcribe(online, recording(k)) for k in range(5)}
    assert dict(transcribe_many(online, map(recording, range(5)), 3)) == alone


@pytest.mark.parametrize("backend", [0, 1])
@pytest.mark.parametrize("at", [9_999, 20_000])
def test_a_suspended_search_remembers_its_words(backend: int, at: int) -> None:
    online, samples = weighing()[backend], recording(4)
    whole, first = LiveStream(online, ()), LiveStream(online, ())
    expected = [*whole.push(samples), *whole.end()]
    found = [*first.push(samples[:at])]
    kept = first.suspend()
    second = LiveStream.resume(online, kept)
    assert [*found, *second.push(samples[at:]), *second.end()] == expected
    with pytest.raises(SnapshotError, match="expected"):
        LiveStream.resume(models()[backend], kept)


def test_both_backends_begin_an_utterance_without_the_words_before() -> None:
    row, heard = np.zeros(1, np.int64), []
    for online in weighing():
        listener = Listener(online, 1, rules=(Rule(length=0.2),))
        steps = recording(7)[: 640 * 40].reshape(-1, 1, 640)
        found = [listener.step(step, row) for step in steps]
        assert sum(int(ended[0]) for _, ended in found) >= 2
        heard.append([[s for s in symbols[0].tolist() if s >= 0] for symbols, _ in found])
    assert heard[0] == heard[1]


@pytest.mark.parametrize("kind", [OnlineRecognizer, FastRecognizer])
def test_a_language_model_is_in_the_name_and_the_digest(
    kind: type[OnlineRecognizer] | type[FastRecognizer],
) -> None:
    model = untrained().recognizer
    every = [NONE, said(), said(3), said(2, 2.0)]
    found = [kind(model, beam=USUAL._replace(words=words)) for words in every]
    assert [one.name.endswith("-beam8-lm") for one in found] == [False, True, True, True]
    assert len({one.digest for one in found}) == 4
    again = kind(model, beam=USUAL._replace(words=said.__wrapped__()))
    assert again.digest == found[1].digest
