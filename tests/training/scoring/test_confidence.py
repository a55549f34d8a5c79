"""Numbers of confidence: they are found again from words, and mean in the fit what they do live."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cortado.model.backends.choice import choose
from cortado.model.config import Confidence, DecoderConfig, RecognizerConfig
from cortado.model.progress import unwatched
from cortado.model.search.settings import DEFAULT_BEAM, GREEDY, Beam
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.vocabulary import ENGLISH, Vocabulary
from cortado.tests.model.untrained import TINY, noise, untrained
from cortado.training.data.evaluation_sets import NamedSet
from cortado.training.data.manifest import Utterance
from cortado.training.scoring.calibration import calibration_error, judged, reliability
from cortado.training.scoring.confidence import HeardWord, fit, hear, rated_by
from cortado.training.scoring.evaluate import Rules, evaluate
from cortado.training.scoring.systems import served

TRUE = Confidence(slope=0.4, offset=1.2, wait=-2.0, strangeness=-2.5)


def words(count: int, strangeness: float, numbers: Confidence = TRUE) -> list[HeardWord]:
    """Words of a set of voices that are right as often as the numbers say."""
    random = np.random.default_rng(round(1000 + 100 * strangeness))
    found = []
    for _ in range(count):
        n = random.integers(1, 8)
        own = random.normal(4, 2, n), random.uniform(0, 1, n), random.normal(strangeness, 0.2, n)
        word = HeardWord(np.stack(own, 1), right=True)
        [(sure, _)] = rated_by(numbers, [word])
        found.append(word._replace(right=bool(random.random() < sure)))
    return found


def test_the_numbers_that_made_words_right_are_found_again() -> None:
    found = fit([words(6000, 0.0), words(6000, 0.6), words(6000, -0.5)])
    np.testing.assert_allclose(found, TRUE, atol=0.25)


def test_every_set_counts_the_same_whatever_its_words() -> None:
    """Of two sets that contradict each other, neither has its way."""
    often, seldom = (Confidence(offset=offset, slope=0.0) for offset in (1.0, -1.0))
    found = fit([words(10_000, 0.0, often), words(1000, 0.0, seldom)])
    shares = [sure for sure, _ in rated_by(found, words(1000, 0.0))]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)


def test_a_strange_voice_is_calibrated_only_by_its_strangeness() -> None:
    strange = words(3000, 0.8)
    with_it = fit([words(3000, 0.0), strange])
    without = with_it._replace(strangeness=0.0)
    errors = [calibration_error(reliability(rated_by(one, strange))) for one in (with_it, without)]
    assert errors[0] < 0.05 < 0.2 < errors[1]


def test_a_few_words_give_finite_numbers() -> None:
    few = [HeardWord(np.full((1, 3), value), right=value > 0) for value in (-1.0, 1.0)]
    assert np.isfinite(fit([few])).all()


@pytest.mark.parametrize("right", [True, False])
def test_words_that_are_all_alike_cannot_be_fitted(right: bool) -> None:
    with pytest.raises(ValueError, match="expected words of which some are right and some are"):
        fit([[one._replace(right=right) for one in words(10, 0.0)], []])


def recognizer(beam: Beam) -> StreamingRecognizer:
    decoder = DecoderConfig(width=16, embedding=8, attention=TINY.decoder.attention, ctc_weight=0.1)
    letters = Vocabulary(
        ENGLISH.replace("'", "")
    )  # the rules of corpora drop apostrophes between gaps
    config = RecognizerConfig(vocabulary=letters, encoder=TINY.encoder, decoder=decoder)
    return choose(untrained(config).recognizer, "reference", beam)


@pytest.fixture
def spoken(tmp_path_factory: pytest.TempPathFactory) -> NamedSet:
    import soundfile

    folder = tmp_path_factory.mktemp("spoken")
    found = []
    for seed in range(3):
        path = folder / f"{seed}.wav"
        soundfile.write(path, noise(seed, 1.5), 16_000)
        found.append(Utterance(str(seed), path, 1.5, "somebody", "a b"))
    return NamedSet("noise", tuple(found))


def test_the_fit_rates_characters_as_the_search_does(spoken: NamedSet) -> None:
    numbers = TRUE._replace(offset=6.0)  # all that an untrained model hears is strange
    beam = DEFAULT_BEAM._replace(width=6, confidence=numbers)
    [heard] = hear(lambda one: recognizer(beam._replace(confidence=one)), [spoken], unwatched)
    each = [HeardWord(row[None], right=True) for word in heard for row in word.measured]
    fitted = [sure for sure, _ in rated_by(numbers, each)]
    [score] = evaluate(served(recognizer(beam), "tiny"), [spoken], Rules.named(), unwatched)
    live = [
        one.confidence
        for result in score.results
        for places, _ in judged(result)
        for one in result.characters[places]
    ]
    assert len(live) > 20
    assert (np.ptp(np.concatenate([word.measured for word in heard]), 0) > 0.1).all()
    np.testing.assert_allclose(fitted, live, atol=0.006)


def test_punctuation_and_capitals_of_a_text_make_no_word_wrong(spoken: NamedSet) -> None:
    beam = DEFAULT_BEAM._replace(width=6)
    load = partial(recognizer, beam)
    scores = evaluate(served(load(), "tiny"), [spoken], Rules.named(), unwatched)
    texts = [result.hypothesis.title() + "!" for score in scores for result in score.results]
    said = [replace(one, text=text) for one, text in zip(spoken.utterances, texts, strict=True)]
    [heard] = hear(
        lambda one: recognizer(beam._replace(confidence=one)),
        [replace(spoken, utterances=tuple(said))],
        unwatched,
    )
    assert heard
    assert all(word.right for word in heard)


def test_a_greedy_scan_cannot_be_calibrated(spoken: NamedSet) -> None:
    with pytest.raises(ValueError, match="expected a search, which confidence is of"):
        hear(lambda _: recognizer(GREEDY), [spoken], unwatched)
