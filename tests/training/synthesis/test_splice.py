"""Words are found where they are said, and put together to sentences that nobody has said."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cortado.model.features.framing import HOP, MELS, SAMPLE_RATE
from cortado.tests.training.recorded import write_corpus
from cortado.tests.training.tiny import corpus as tones
from cortado.tests.training.tiny import recipe
from cortado.training.alignment.hmm import viterbi
from cortado.training.alignment.word_aligner import WordAligner
from cortado.training.data.log_mel_cache import CachedCorpus, cached
from cortado.training.learning import recipe as recipes
from cortado.training.learning.recipe import FromText
from cortado.training.learning.run import train
from cortado.training.synthesis.splice import SplicedCorpus, word_edges

WORDS = ["bad", "cab", "dad", "add", "abba", "cabbed"]
PITCHES = {"a": 300, "b": 700, "c": 1400, "d": 2500, "e": 4500}
LETTER, PAUSE = 0.1, 0.15  # seconds


def said(words: list[str], rng: np.random.Generator) -> tuple[NDArray[np.float32], list[float]]:
    """Tones, one a letter, with pauses; and the times at which words begin and end."""
    pieces, now = [np.zeros(int(PAUSE * SAMPLE_RATE))], PAUSE
    times: list[float] = []
    for word in words:
        times.append(now)
        for letter in word:
            seconds = LETTER * rng.uniform(0.7, 1.4)
            at = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
            pieces.append(0.3 * np.sin(2 * np.pi * PITCHES[letter] * at))
            now += seconds
        times.append(now)
        pieces.append(np.zeros(int(PAUSE * SAMPLE_RATE)))
        now += PAUSE
    samples = np.concatenate(pieces)
    return (samples + rng.normal(0, 0.003, len(samples))).astype(np.float32), times


@pytest.fixture(scope="module")
def recordings() -> list[tuple[NDArray[np.float32], str, list[float]]]:
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(60):
        words = [WORDS[int(k)] for k in rng.integers(len(WORDS), size=int(rng.integers(2, 6)))]
        samples, times = said(words, rng)
        drawn.append((samples, " ".join(words), times))
    return drawn


@pytest.fixture(scope="module")
def corpus(
    recordings: list[tuple[NDArray[np.float32], str, list[float]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> CachedCorpus:
    folder = tmp_path_factory.mktemp("words")
    manifest = write_corpus(folder, ((samples, text) for samples, text, _ in recordings))
    return cached(manifest, folder / "cache")


def sentences(folder: Path) -> Path:
    path = folder / "sentences.txt"
    path.write_text("\n".join(" ".join(pair) for pair in itertools.permutations(WORDS, 3)))
    return path


def test_words_are_found_where_they_are_said(
    recordings: list[tuple[NDArray[np.float32], str, list[float]]], corpus: CachedCorpus
) -> None:
    aligner = WordAligner([(corpus.logmel(k), text) for k, (_, text, _) in enumerate(recordings)])
    errors = []
    for k, (_, text, times) in enumerate(recordings):
        words = aligner.words(corpus.logmel(k), text)
        assert words is not None
        errors += list(np.abs(words.ravel() * HOP / SAMPLE_RATE - times))
    assert np.percentile(errors, 90) < 0.03  # seconds; a window of 25 ms sees the next tone too


def test_a_text_that_cannot_have_been_said_has_no_words(corpus: CachedCorpus) -> None:
    aligner = WordAligner([(corpus.logmel(k), corpus.utterances[k].text) for k in range(20)])
    assert aligner.words(corpus.logmel(0)[:5], "abba cabbed") is None  # more letters than frames
    assert aligner.words(corpus.logmel(0), "zebra") is None
    assert aligner.words(corpus.logmel(0), "") is None
    assert aligner.words(corpus.logmel(0), "dad ' bad") is None


def test_recordings_without_time_for_their_texts_are_refused() -> None:
    logmel = np.random.default_rng(0).normal(size=(5, MELS)).astype(np.float32)
    with pytest.raises(ValueError, match="expected recordings with time for their texts, got none"):
        WordAligner([(logmel, "far more than can be said")])


def test_viterbi_finds_the_best_of_all_paths() -> None:
    rng = np.random.default_rng(0)
    states = np.array([0, 1, 2, 0, 2, 1, 0])
    for frames in (4, 6, 8):
        scores = rng.normal(size=(frames, 3)).astype(np.float32)
        best = -np.inf
        for steps in itertools.product((0, 1, 2), repeat=frames):
            places = np.cumsum(steps)
            skips = [at - 1 for at, step in zip(places, steps, strict=True) if step == 2]
            first = steps[0] < 2
            if not first or places[-1] >= len(states) or any(states[at] for at in skips):
                continue
            if places[-1] < len(states) - 2:
                continue
            best = max(best, float(scores[np.arange(frames), states[places]].sum()))
        path = viterbi(scores, states)
        assert np.isclose(scores[np.arange(frames), states[path]].sum(), best)


def test_spliced_utterances_say_their_sentences(corpus: CachedCorpus, tmp_path: Path) -> None:
    edges = word_edges(corpus)
    spliced = SplicedCorpus(corpus, edges, sentences(tmp_path), 40, seed=3)
    aligner = WordAligner([(corpus.logmel(k), corpus.utterances[k].text) for k in range(60)])
    whole = {one.text for one in corpus.utterances}
    assert any(one.text not in whole for one in spliced.utterances)
    for k, utterance in enumerate(spliced.utterances):
        logmel = spliced.logmel(k)
        assert logmel.shape == (utterance.frames, corpus.bands)
        words = utterance.text.split()
        assert 2 <= len(words) <= 3
        found = aligner.words(logmel, utterance.text)
        assert found is not None
        letters = sum(len(word) for word in words)
        assert np.sum(found[:, 1] - found[:, 0]) == pytest.approx(10 * letters, rel=0.4)


def test_spliced_utterances_depend_on_seed_and_number_alone(
    corpus: CachedCorpus, tmp_path: Path
) -> None:
    edges, text = word_edges(corpus), sentences(tmp_path)
    short, long = (SplicedCorpus(corpus, edges, text, count, 5) for count in (4, 9))
    other = SplicedCorpus(corpus, edges, text, 4, 6)
    assert short.utterances == long.utterances[:4]
    np.testing.assert_array_equal(short.logmel(3), long.logmel(3))
    assert [one.text for one in other.utterances] != [one.text for one in short.utterances]


def test_edges_are_kept_until_the_texts_or_the_recordings_change(
    corpus: CachedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = word_edges(corpus)
    with monkeypatch.context() as patched:
        patched.setattr(
            "cortado.training.synthesis.splice.WordAligner", None
        )  # nobody aligns a second time
        assert word_edges(corpus) == first
    assert all(len(at) == len(u.text.split()) + 1
               for at, u in zip(first, corpus.utterances, strict=True))  # fmt: skip
    changed = CachedCorpus(corpus.folder, [replace(u, text="bad") for u in corpus.utterances])
    assert all(len(at) == 2 for at in word_edges(changed))
    later = [replace(u, start=u.start + 5, frames=u.frames - 5) for u in corpus.utterances]
    assert word_edges(CachedCorpus(corpus.folder, later)) != first


def test_a_text_of_other_words_is_refused(corpus: CachedCorpus, tmp_path: Path) -> None:
    text = tmp_path / "others.txt"
    text.write_text("nothing of this was ever said\n")
    with pytest.raises(ValueError, match="expected a text in which 2 words in a row have been"):
        SplicedCorpus(corpus, word_edges(corpus), text, 1, seed=0)


def test_a_run_draws_spliced_utterances(tmp_path: Path) -> None:
    manifest = tones(tmp_path, ["a bee", "bee see", "see a tree"] * 4)
    text = tmp_path / "text.txt"
    text.write_text("see a bee\na tree bee\n")
    plain = recipe(manifest)
    splice = recipes.Corpus(manifest, 1.0, splice=FromText(text, 30))
    train(replace(plain, corpora=(*plain.corpora, splice)), tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint" / "model.safetensors").exists()
