"""Files of language models: what is sound is read, and the rest is refused."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from cortado.model.search import language_model as language
from cortado.model.search import source_model
from cortado.model.search.language_file import (
    FILE,
    LanguageError,
    language_of,
    packed_counts,
    read_language,
)
from cortado.model.search.language_model import (
    NONE,
    NOWHERE,
    Language,
    after,
    followed,
    mass_below,
    placed,
)
from cortado.model.search.look_ahead import known, weigh
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.search.test_language_model import (
    EVERYTHING,
    NUMBERS,
    VOCABULARY,
    made,
    save,
)
from cortado.tests.training.trigram import sentences
from cortado.training.language import source_model as source_file

INDICES = ("letters", "children", "words", "lows", "highs", "starts", "seconds", "ends", "thirds")
ARRAYS = (*INDICES, "unigrams", "bigrams", "trigrams")  # of a file


def contents(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    with safe_open(path, "numpy") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return save(tmp_path / "good", sentences(1, 60))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("language")


def test_a_file_that_is_none_is_refused_with_its_name(good: Path, tmp_path: Path) -> None:
    whole, bad = good.read_bytes(), tmp_path / "bad"
    for content in (b"", b"words", b"\xff" * 100, whole[:-1], whole[: len(whole) // 2], whole[8:]):
        bad.write_bytes(content)
        with pytest.raises(LanguageError, match=r"by cortado lm at .*/bad, got .* \(Safetensor"):
            read_language(bad, VOCABULARY)
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(LanguageError, match=rf"at {missing}, got no such file"):
            read_language(missing, VOCABULARY)


def test_a_vocabulary_of_words_has_a_space(good: Path) -> None:
    for vocabulary in (Vocabulary("abc"), Vocabulary(phones=("a", "b"))):
        with pytest.raises(LanguageError, match="expected a vocabulary with a space"):
            read_language(good, vocabulary)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("format", "3", "expected format 1 or 2, got 3"),
        ("format", None, "expected format 1 or 2, got none"),
        ("letters", None, "letters"),
        ("letters", "ba", "expected letters from 0 to 1, got 0 to 3"),
        ("weight", None, "weight"),
        ("weight", "0", "expected a weight above 0"),
        ("weight", "much", "much"),
        ("weight", "nan", "expected finite numbers"),
        ("bonus", "inf", "expected finite numbers"),
        ("leaving", "0.5", "prices at most 1"),
        ("letter", "0.5", "prices at most 1"),
    ],
)
def test_what_a_file_says_of_itself_is_looked_at(
    name: str, value: str | None, message: str, good: Path
) -> None:
    about, parts = contents(good)
    save_file(parts, good, {k: v for k, v in (about | {name: value}).items() if v is not None})
    with pytest.raises(LanguageError, match=f"expected a file made by cortado lm at .*{message}"):
        read_language(good, VOCABULARY)


def check_refused(parts: dict[str, NDArray[Any]], about: dict[str, str], path: Path) -> None:
    save_file(parts, path, about)
    with pytest.raises(LanguageError, match=r"good, got .*ValueError: expected .*, got "):
        read_language(path, VOCABULARY)


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_is_missing_or_of_another_shape_is_refused(name: str, good: Path) -> None:
    about, parts = contents(good)
    part = parts[name]
    others = [part[:-1], part[1:], part[:0], np.append(part, part[-1:], 0), part[None], part[0]]
    if part.dtype.kind != "f":
        others += [part.astype(np.float32), part[:, None]]
    for other in others:
        check_refused(parts | {name: np.ascontiguousarray(other)}, about, good)
    del parts[name]
    save_file(parts, good, about)
    with pytest.raises(LanguageError, match=f"good, got .*KeyError: '{name}'"):
        read_language(good, VOCABULARY)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_number_out_of_bounds_is_refused(name: str, good: Path) -> None:
    about, parts = contents(good)
    part = parts[name]
    for value in (-2, 1 << 20) if name in INDICES else (0.5, np.nan, np.inf, -np.inf):
        other = part.astype(np.int64) if name in INDICES else part.copy()
        other.flat[other.size // 2] = value
        check_refused(parts | {name: other}, about, good)


PRONUNCIATION = ("spoken", "spoken_starts", "likeliest", "said", "taken")


def pronounced(parts: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """A phone for each word, which all of its letters take."""
    words, nodes = len(parts["unigrams"]), len(parts["words"])
    lengths = [
        depth
        for depth, (start, end) in enumerate(language.levels(parts["children"]), 1)
        for word in parts["words"][start:end]
        if word >= 0
    ]
    return {
        "spoken": np.ones(words, np.int64),
        "spoken_starts": np.arange(words + 1),
        "likeliest": parts["lows"].astype(np.int64),
        "said": np.ones(nodes, np.int64),
        "taken": packed_counts(np.ones(sum(lengths), np.int64)).astype(np.int64),
    }


def test_a_file_may_know_how_its_words_are_pronounced(good: Path) -> None:
    about, parts = contents(good)
    assert not read_language(good, VOCABULARY).pronounces
    save_file(parts | pronounced(parts), good, about)
    lm = read_language(good, VOCABULARY)
    assert lm.pronounces
    assert set(lm.taken) == {1}
    assert language.begun_phones.py_func(lm, 1).tolist() == [1]
    assert language.begun_phones.py_func(lm, NOWHERE).tolist() == []
    assert language.word_phones.py_func(lm, NOWHERE).tolist() == []


@pytest.mark.parametrize("name", PRONUNCIATION)
def test_a_pronunciation_that_is_broken_is_refused(name: str, good: Path) -> None:
    about, parts = contents(good)
    more = pronounced(parts)
    part = more[name]
    for other in (part[:-1], part[None], part.astype(np.float32), part - 2000, part + (1 << 20)):
        check_refused(parts | more | {name: np.ascontiguousarray(other)}, about, good)
    save_file(parts | {name: part for name, part in more.items() if name != "said"}, good, about)
    with pytest.raises(LanguageError, match=r"good, got .*KeyError: 'said'"):
        read_language(good, VOCABULARY)


def check_bounds(lm: Language) -> None:
    """Look whether all indices that a search may use are within what they index."""
    nodes, words, symbols = len(lm.words), len(lm.left1), len(VOCABULARY)
    pairs = [(0, 0), (words - 1, words - 1), (2, 3), (words // 2, 2)]
    for before, last in pairs:
        a = after.py_func(lm, before, last)
        assert 0 <= a.start.second <= a.end.second <= len(lm.seconds)
        assert 0 <= a.start.third <= a.end.third <= len(lm.thirds)
        for word in range(words + 1):
            place = placed.py_func(lm, word, a.start, a.end)
            assert np.isfinite(mass_below.py_func(lm, a, word, place))
    for node, (before, last) in product((NOWHERE, *range(nodes)), pairs):
        guarded = np.zeros(symbols + 2, np.float32)
        weigh.py_func(lm, node, before, last, EVERYTHING, known(lm, symbols), guarded[1:-1])
        assert np.isfinite(guarded).all()
        assert guarded[0] == guarded[-1] == 0
        for symbol in range(symbols):
            found = followed.py_func(lm, node, before, last, symbol)
            assert -1 <= found[0] < nodes
            assert all(0 <= word < words for word in found[1:])


def test_a_sound_file_stays_within_bounds(good: Path) -> None:
    check_bounds(read_language(good, VOCABULARY))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), name=st.sampled_from(ARRAYS))
def test_a_file_with_a_wrong_number_is_refused_or_stays_within_bounds(
    data: st.DataObject, name: str, folder: Path
) -> None:
    path = save(folder / "good", sentences(1, 60))
    about, parts = contents(path)
    part = parts[name]
    if part.dtype.kind == "f":
        other, wrong = part.copy(), st.floats(width=16)
    else:
        other, wrong = (
            part.astype(np.int64),
            st.integers(-3, 2 * len(part)) | st.integers(-9, 2**40),
        )
    other.flat[data.draw(st.integers(0, other.size - 1))] = data.draw(wrong)
    save_file(parts | {name: other}, path, about)
    try:
        found = read_language(path, VOCABULARY)
    except LanguageError:
        return
    check_bounds(found)


def test_a_file_has_the_words_besides_those_of_the_lexicon(good: Path) -> None:
    about, parts = contents(good)
    few = {"letters": [0], "children": [1, 1], "words": [-1], "lows": [0], "highs": [0]}
    few |= {"starts": [0, 0, 0], "seconds": [], "ends": [0], "thirds": []}
    none = {name: parts[name][:0] for name in ("bigrams", "trigrams")}
    rows = {name: np.array(row, np.int32) for name, row in few.items()}
    save_file(rows | none | {"unigrams": parts["unigrams"][:2]}, good, about)
    with pytest.raises(LanguageError, match="expected more than 2 words, got 2"):
        read_language(good, VOCABULARY)


def test_a_folder_has_its_own_and_others_are_asked_for(good: Path, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    save(other / FILE, sentences(2, 60), NUMBERS._replace(weight=2.0))
    assert language_of(own, VOCABULARY) is NONE
    save(own / FILE, sentences(3, 60), NUMBERS._replace(weight=3.0))
    weights = [
        language_of(own, VOCABULARY, asked).weight for asked in (None, str(good), str(other))
    ]
    assert weights == [3.0, NUMBERS.weight, 2.0]
    assert language_of(own, VOCABULARY, "none") is NONE
    assert language_of(tmp_path, Vocabulary("abc")) is NONE  # it needs no space
    for missing, place in ((tmp_path, tmp_path / FILE), (own / "lm", own / "lm")):
        with pytest.raises(LanguageError, match=f"expected a language model at {place}, got no"):
            language_of(own, VOCABULARY, str(missing))
    (own / FILE).write_bytes(b"")
    with pytest.raises(LanguageError, match="expected a file made by cortado lm at"):
        language_of(own, VOCABULARY)


def test_what_the_decoder_knows_goes_with_the_weight_of_any_words(
    good: Path, tmp_path: Path
) -> None:
    count = len(VOCABULARY)
    scores = np.random.default_rng(1).normal(0, 1, (count + 1, count + 1, count))
    source_file.write(tmp_path / source_model.FILE, scores, 0.25)
    save(tmp_path / FILE, sentences(3, 60), NUMBERS._replace(weight=2.0))
    for asked, weight in ((None, 2.0), (str(good), NUMBERS.weight)):
        found = language_of(tmp_path, VOCABULARY, asked).source
        assert np.allclose(found, 0.25 * weight * scores, atol=1e-2)
    assert language_of(tmp_path, VOCABULARY, "none") is NONE
    (tmp_path / source_model.FILE).write_bytes(b"")
    with pytest.raises(LanguageError, match="expected a language model of letters in"):
        language_of(tmp_path, VOCABULARY)


def test_without_a_language_model_there_is_no_weight() -> None:
    assert NONE.weight == 0
    kinds = [part.dtype for part in NONE[5:-1]]  # of which the search is compiled, with or without
    assert kinds == [part.dtype for part in made(1)[5:-1]]
    assert {*map(type, NONE[:5])} == {*map(type, made(1)[:5])}


def with_neural(parts: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What a file has of a neural model of 3 words, with vectors of 2 and 4 units."""
    words, random = len(parts["unigrams"]), np.random.default_rng(0)
    return {
        "neural_rows": np.arange(words, dtype=np.uint8) % 5,
        "neural_vectors": random.integers(-127, 128, (5, 2)).astype(np.int8),
        "neural_steps": np.full(5, 0.01, np.float16),
        "neural_biases": random.normal(-3, 1, 5).astype(np.float16),
        "neural_hidden": random.normal(0, 1, (6, 4)).astype(np.float16),
        "neural_hidden_biases": np.zeros(4, np.float16),
        "neural_output": random.normal(0, 1, (4, 2)).astype(np.float16),
        "neural_output_biases": np.zeros(2, np.float16),
    }


def test_a_file_may_have_a_neural_model(good: Path) -> None:
    about, parts = contents(good)
    assert read_language(good, VOCABULARY).neural.share == 0
    more = with_neural(parts)
    save_file(parts | more, good, about | {"neural_share": "0.25"})
    neural = read_language(good, VOCABULARY).neural
    assert (neural.share, neural.words) == (0.25, 3)
    assert neural.vectors == pytest.approx(more["neural_vectors"] * 0.01, rel=1e-3)
    whole = np.exp(parts["unigrams"][:, 0].astype(float))
    for row in range(5):
        shares = np.exp(neural.within[neural.rows == row])
        own = whole[neural.rows == row]
        assert shares == pytest.approx(own / own.sum(), rel=1e-3)


@pytest.mark.parametrize("name", list(with_neural({"unigrams": np.zeros((9, 2))})))
def test_a_neural_model_that_is_broken_is_refused(name: str, good: Path) -> None:
    about, parts = contents(good)
    more, about = with_neural(parts), about | {"neural_share": "0.25"}
    part = more[name]
    others = [part[:-1], part[:0], part[None]]
    if part.dtype.kind == "f":
        others.append(np.full_like(part, np.nan))
    if name == "neural_rows":
        others += [part + 5, part.astype(np.int16) - 1, part.astype(np.float32)]
    for other in others:
        check_refused(parts | more | {name: np.ascontiguousarray(other)}, about, good)
    if name != "neural_vectors":
        save_file(parts | {key: one for key, one in more.items() if key != name}, good, about)
        with pytest.raises(LanguageError, match=rf"good, got .*KeyError: '{name}'"):
            read_language(good, VOCABULARY)


@pytest.mark.parametrize("share", ["0", "1", "-0.5", "nan", "much", None])
def test_a_neural_model_has_a_share(share: str | None, good: Path) -> None:
    about, parts = contents(good)
    said = {"neural_share": share} if share is not None else {}
    save_file(parts | with_neural(parts), good, about | said)
    with pytest.raises(LanguageError, match=r"good, got .*(Error)"):
        read_language(good, VOCABULARY)
