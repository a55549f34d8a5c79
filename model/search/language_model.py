"""A word trigram language model that scores a search's text symbol by symbol, compiled.

The lexicon is a tree of letters; a node stands for all words with one beginning. A trigram model
(Kneser & Ney 1995) gives the probability of those words together after the two words before. So
every letter has a score at once, before its word ends (look-ahead of Ortmanns et al. 1996). Words
are numbered in the tree's order, so the words below a node are a range, and their probability is a
difference of cumulative sums: a few binary searches, whatever the number of words.

A word outside the lexicon may be written, too. It costs a price for leaving the tree and one for
each letter from there on, both constants of the file.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from cortado.model.compiled.functions import log
from cortado.model.compiled.jit import cached_njit
from cortado.model.search import source_model
from cortado.model.vocabulary import Vocabulary

Array = NDArray[Any]

FILE = "language.safetensors"  # in a checkpoint's folder
FORMAT, PACKED = "1", "2"  # of files: as it is used, and as it takes less room
BOUNDS = {"children": 1, "starts": 0, "ends": 0, "spoken_starts": 0}  # and where they begin
STEPS = 16  # of a nat, in which a packed file has the logarithms of bigrams and trigrams
BEGIN, END, UNKNOWN = 0, 1, 2  # words besides those of the lexicon, which follow
BROKEN = (
    *(AttributeError, KeyError, TypeError, ValueError, IndexError),  # of an array unlike what it is
    *(OSError, SafetensorError),
)
MOST_TAKEN = 3  # phones of a letter; a word with more for one has none for all of its letters
LEAST = 1e-12  # probability, a bound against rounding
ROOT, NOWHERE = 0, -1  # nodes: before a word's first letter, and in a word that is not in the tree


class Language(NamedTuple):
    """A language model prepared for one vocabulary; logarithms are in nats."""

    weight: float  # of its log-probabilities beside the recogniser's; 0 for no language model
    bonus: float  # nats added for each symbol, which offset the language model's costs
    leaving: float  # log of the price of leaving the tree
    letter: float  # log of the price of each letter outside it
    space: int  # the symbol that ends a word
    symbols: Array  # (N,) int32: a node's last letter; -1 where the vocabulary lacks it
    children: Array  # (N + 1,) int32: where a node's children begin; they end where the next's do
    words: Array  # (N,) int32: the word that a node ends, -1 for none
    lows: Array  # (N,) int32: the first word below a node
    highs: Array  # (N,) int32: the one after the last
    starts: Array  # (W + 1,) int32: where the bigrams of a first word begin
    seconds: Array  # (B,) int32: their second words, ascending for each first one
    ends: Array  # (B + 1,) int32: where the trigrams of a bigram begin
    thirds: Array  # (T,) int32: their third words, ascending
    left1: Array  # (W,) float64: back-off weight of a word, to the unigrams
    left2: Array  # (B,) float64: back-off weight of a bigram, to the bigrams
    sums1: Array  # (W + 1,) float64: cumulative sum of the unigrams' probabilities
    sums2: Array  # (B + 1,) float64: of the bigrams', less their back-off part
    sums3: Array  # (T + 1,) float64: of the trigrams', less their back-off part
    spoken: Array  # (P,) int32: the words' phones, outputs of the recogniser's phone head
    spoken_starts: Array  # (W + 1,) int32: where a word's phones begin; those of none are unknown
    likeliest: Array  # (N,) int32: the likeliest word below a node
    said: Array  # (N,) int32: how many of its phones the letters up to the node take
    source: Array  # (V + 1, V + 1, V) float32: what is taken off a symbol's score (source_model.py)
    taken: Array  # (L,) uint8: how many phones each letter of the words takes, word by word

    @property
    def pronounces(self) -> bool:
        """Whether it knows how its words are pronounced."""
        return len(self.spoken) > 0

    @property
    def spells(self) -> bool:
        """Whether it knows which phones the letters of its words take; older files do not."""
        return len(self.taken) > 0

    @property
    def known(self) -> int:
        """The number of words in its lexicon."""
        return max(len(self.left1) - UNKNOWN - 1, 0)


class LanguageError(ValueError):
    """A language model that is missing, broken, or does not fit the vocabulary."""


NONE = Language(
    *(0.0, 0.0, 0.0, 0.0, -1),
    *(np.zeros(0, np.int32) for _ in range(9)),
    *(np.zeros(0) for _ in range(5)),
    *(np.zeros(0, np.int32) for _ in range(4)),
    *[source_model.NONE, np.zeros(0, np.uint8)],
)
PRONUNCIATION = Language._fields[19:23]  # what a file may lack
LETTERS = "taken"  # of pronunciations: what an older file lacks


def read(path: Path, vocabulary: Vocabulary) -> Language:
    """Read a language model's file, for a recogniser with this vocabulary.

    Raises:
        LanguageError: it is missing or broken, or the vocabulary has no space.
    """
    if " " not in vocabulary.names:
        raise LanguageError("expected a vocabulary with a space, for a language model of words")
    if not path.is_file():
        raise LanguageError(f"expected a language model at {path}, got no such file")
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata() or {}
            parts = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _built(about, parts, vocabulary)
    except BROKEN as error:
        found = f"{type(error).__name__}: {error}"
        raise LanguageError(f"expected a language model in {path}, got {found}") from error


def of(folder: Path, vocabulary: Vocabulary, named: str | None = None) -> Language:
    """Return the language model to use with a checkpoint's recogniser.

    Args:
        folder: of the checkpoint, whose own language model is the default.
        vocabulary: of the recogniser.
        named: a language model's file, a folder with one, or "none"; None for the default.

    Raises:
        LanguageError: it is missing or broken, or the vocabulary has no space; or the source model
            of the checkpoint is broken.
    """
    path = located(folder, named)
    if path is None:
        return NONE
    words = read(path, vocabulary)
    if not (folder / source_model.FILE).exists():
        return words
    try:
        scores, share = source_model.read(folder / source_model.FILE, len(vocabulary))
    except ValueError as error:
        raise LanguageError(str(error)) from error
    return words._replace(source=np.float32(share * words.weight) * scores)


def located(folder: Path, named: str | None = None) -> Path | None:
    """Return the file that `of` reads, None for none."""
    if named == "none":
        return None
    if named is None:
        return folder / FILE if (folder / FILE).exists() else None
    path = Path(named)
    return path / FILE if path.is_dir() else path


def _built(
    about: Mapping[str, str], parts: Mapping[str, Array], vocabulary: Vocabulary
) -> Language:
    form = about.get("format", "none")
    if form not in (FORMAT, PACKED):
        raise ValueError(f"expected format {FORMAT} or {PACKED}, got {form}")
    if form == PACKED:
        parts = _unpacked(parts)
    index = {name: symbol for symbol, name in enumerate(vocabulary.names)}
    letters = np.array([index.get(letter, -1) for letter in about["letters"]], np.int32)
    whole = {name: _indices(name, parts) for name in ("letters", *Language._fields[6:14])}
    logs = {name: parts[name].astype(float) for name in ("unigrams", "bigrams", "trigrams")}
    _check(whole, logs, len(letters))
    unigram, left1 = np.exp(logs["unigrams"]).T.copy()
    bigram, left2 = np.exp(logs["bigrams"]).T.copy()
    words, starts, ends = len(unigram), whole["starts"], whole["ends"]
    first = np.repeat(np.arange(words, dtype=np.int64), np.diff(starts))
    second, third = whole["seconds"].astype(np.int64), whole["thirds"]
    history = np.repeat(np.arange(len(second)), np.diff(ends))  # the bigram of each trigram
    lower = np.searchsorted(first * words + second, second[history] * words + third)
    more2 = bigram - left1[first] * unigram[second]
    more3 = np.exp(logs["trigrams"]) - left2[history] * bigram[lower]
    numbers = {name: float(about[name]) for name in ("weight", "bonus", "leaving", "letter")}
    if not all(map(math.isfinite, numbers.values())):
        raise ValueError(f"expected finite numbers, got {numbers}")
    if numbers["weight"] <= 0 or numbers["leaving"] > 0 or numbers["letter"] > 0:
        raise ValueError(f"expected a weight above 0 and prices at most 1, got {numbers}")
    symbols = letters[whole.pop("letters")]
    everything: dict[str, Any] = numbers | whole | _pronunciation(parts, len(unigram))
    return NONE._replace(
        **everything,
        space=index[" "],
        symbols=symbols,
        left1=left1,
        left2=left2,
        sums1=_running(unigram),
        sums2=_running(more2),
        sums3=_running(more3),
    )


def _unpacked(parts: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of a packed file as they are in others.

    A packed file has counts in place of bounds, 0 for no word, and logarithms in steps below 0.
    """
    bounds = {
        name: np.concatenate([[first], first + np.cumsum(_indices(name, parts), dtype=np.int64)])
        for name, first in BOUNDS.items()
        if name in parts
    }
    logs = {name: parts[name] / -STEPS for name in ("bigrams", "trigrams")}
    words = _indices("words", parts)
    return {**parts, **bounds, **logs, "words": np.where(words == 0, -1, words)}


def _pronunciation(parts: Mapping[str, Array], words: int) -> dict[str, Array]:
    """Return the arrays of a file's pronunciations, none if it has none."""
    if PRONUNCIATION[0] not in parts:
        return {}
    found = {name: _indices(name, parts) for name in PRONUNCIATION}
    starts, nodes = found["spoken_starts"], len(parts["words"])
    if len(starts) != words + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise ValueError(f"expected spoken_starts of {words} words that ascend from 0, got others")
    if starts[-1] != len(found["spoken"]):
        raise ValueError(f"expected {starts[-1]} phones, got {len(found['spoken'])}")
    for name, least, most in (
        ("spoken", 0, np.iinfo(np.uint8).max),
        ("likeliest", 0, words - 1),
        ("said", 0, np.iinfo(np.uint8).max),
    ):
        if len(found[name]) and not least <= found[name].min() <= found[name].max() <= most:
            raise ValueError(f"expected {name} from {least} to {most}, got others")
    if len(found["likeliest"]) != nodes or len(found["said"]) != nodes:
        raise ValueError(f"expected likeliest and said of {nodes} nodes, got others")
    lengths = np.diff(starts)[found["likeliest"]]
    found["said"] = np.minimum(found["said"], lengths)
    if LETTERS in parts:
        found[LETTERS] = unpacked_counts(_indices(LETTERS, parts), _letters(parts))
    return found


def levels(children: Array) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the nodes of words' first letters, second letters, and so on."""
    start, end = 1, int(children[1])
    while start < end:
        yield start, end
        start, end = int(children[start]), int(children[end])


def _letters(parts: Mapping[str, Array]) -> int:
    """Return how many letters all words have together."""
    ends = parts["words"] >= 0
    return sum(
        depth * int(ends[start:end].sum())
        for depth, (start, end) in enumerate(levels(parts["children"]), 1)
    )


def packed_counts(counts: Array) -> Array:
    """Return counts (N,) from 0 to 3 as bytes, four in each."""
    four = np.pad(counts, (0, -len(counts) % 4)).reshape(-1, 4)
    return (four << np.arange(0, 8, 2)).sum(1).astype(np.uint8)


def unpacked_counts(found: Array, count: int) -> Array:
    """Return the counts (N,) that `packed_counts` has made bytes of.

    Raises: ValueError where they are not of so many.
    """
    if len(found) != -(-count // 4):
        raise ValueError(f"expected {LETTERS} of {count} letters, got {4 * len(found)}")
    if len(found) and not 0 <= found.min() <= found.max() <= np.iinfo(np.uint8).max:
        raise ValueError(f"expected {LETTERS} as bytes, got {found.min()} to {found.max()}")
    return (found[:, None] >> np.arange(0, 8, 2) & 3).astype(np.uint8).ravel()[:count]


def _running(numbers: Array) -> Array:
    return np.concatenate([np.zeros(1), np.cumsum(numbers)])


def _indices(name: str, parts: Mapping[str, Array]) -> Array:
    found = parts[name]
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ValueError(f"expected {name} as a row of integers, got {found.dtype} {found.shape}")
    return found.astype(np.int32)


def _check(whole: Mapping[str, Array], logs: Mapping[str, Array], letters: int) -> None:
    """Look whether indices stay within what they index: compiled code does not.

    Raises:
        ValueError: they do not, or a number is no logarithm of a probability.
    """
    nodes, words = len(whole["words"]), len(logs["unigrams"])
    bigrams, trigrams = len(whole["seconds"]), len(whole["thirds"])
    if words <= UNKNOWN:
        raise ValueError(f"expected more than {UNKNOWN} words, got {words}")
    for name, shape in (
        *((name, (nodes,)) for name in ("letters", "lows", "highs")),
        *(("unigrams", (words, 2)), ("bigrams", (bigrams, 2)), ("trigrams", (trigrams,))),
    ):
        found = (whole | logs)[name]  # type: ignore[operator]
        if found.shape != shape:
            raise ValueError(f"expected {name} of shape {shape}, got {found.shape}")
    for name, length, first, last in (
        ("children", nodes, 1, nodes),
        ("starts", words, 0, bigrams),
        ("ends", bigrams, 0, trigrams),
    ):
        bounds = whole[name]
        ends = (*bounds[:1].tolist(), *bounds[-1:].tolist())
        if len(bounds) != length + 1 or ends != (first, last) or (np.diff(bounds) < 0).any():
            raise ValueError(f"expected {name} that ascend from {first} to {last}, got others")
    for name, least, most in (
        ("letters", 0, letters - 1),
        ("words", -1, words - 1),
        ("lows", 0, words),
        ("highs", 0, words),
        ("seconds", 0, words - 1),
        ("thirds", 0, words - 1),
    ):
        found = whole[name]
        if len(found) and (found.min() < least or found.max() > most):
            raise ValueError(
                f"expected {name} from {least} to {most}, got {found.min()} to {found.max()}"
            )
    if not all((np.isfinite(part) & (part <= 0)).all() for part in logs.values()):
        raise ValueError("expected finite logarithms, none above 0, got others")


class Place(NamedTuple):
    """Where a word is, or would be inserted, among those that may follow two others."""

    second: np.int64  # among bigrams
    third: np.int64  # among trigrams


class After(NamedTuple):
    """What may follow two words: the ranges of the n-grams, and their back-off weights."""

    start: Place
    end: Place
    left1: float
    left2: float


@numba.njit(nogil=True, forceinline=True)
def _sought(word: int, words: Array, start: Any, end: Any) -> Any:
    """Return where in an ascending range of an array a word is, or would be inserted."""
    while start < end:
        middle = (start + end) // 2
        if words[middle] < word:
            start = middle + 1
        else:
            end = middle
    return start


@numba.njit(nogil=True, forceinline=True)
def after(lm: Language, before: int, last: int) -> After:
    """Return what may follow two words."""
    end = lm.starts[before + 1]
    pair = _sought(last, lm.seconds, lm.starts[before], end)
    start3, end3, left2 = lm.ends[0], lm.ends[0], 1.0  # none
    if pair < end and lm.seconds[pair] == last:
        start3, end3, left2 = lm.ends[pair], lm.ends[pair + 1], lm.left2[pair]
    start = Place(np.int64(lm.starts[last]), np.int64(start3))
    stop = Place(np.int64(lm.starts[last + 1]), np.int64(end3))
    return After(start, stop, lm.left1[last], left2)


@numba.njit(nogil=True, forceinline=True)
def placed(lm: Language, word: int, start: Place, end: Place) -> Place:
    """Return the place of a word between two places."""
    second = _sought(word, lm.seconds, start.second, end.second)
    return Place(second, _sought(word, lm.thirds, start.third, end.third))


@numba.njit(nogil=True, forceinline=True)
def total(lm: Language, a: After, word: int, place: Place) -> float:
    """Return the total probability of all words numbered below `word`, whose place is `place`."""
    second = lm.sums2[place.second] - lm.sums2[a.start.second]
    third = lm.sums3[place.third] - lm.sums3[a.start.third]
    return a.left2 * (a.left1 * lm.sums1[word] + second) + third


@cached_njit()
def ended(lm: Language, node: int, before: int, last: int) -> np.float32:
    """Return what a text gains, in nats, where its unfinished word ends at a node.

    Outside the lexicon that is nothing: what such a word costs is paid.
    """
    if node in (ROOT, NOWHERE):
        return np.float32(0)
    if lm.words[node] < 0:
        return np.float32(lm.weight * lm.leaving)
    a = after(lm, before, last)
    low = placed(lm, lm.lows[node], a.start, a.end)
    high = placed(lm, lm.highs[node], low, a.end)
    first = total(lm, a, lm.lows[node], low)
    whole = max(total(lm, a, lm.highs[node], high) - first, LEAST)
    end = lm.words[node] + 1
    part = max(total(lm, a, end, placed(lm, end, low, high)) - first, LEAST)
    return np.float32(lm.weight * log(np.float32(part / whole)))


@cached_njit(forceinline=True)
def followed(lm: Language, node: int, before: int, last: int, symbol: int) -> tuple[int, int, int]:
    """Return the next state (node and the two words before) after one symbol more."""
    if symbol == lm.space:
        if node == ROOT:
            return ROOT, before, last
        word = lm.words[node] if node != NOWHERE else -1
        return ROOT, last, word if word >= 0 else UNKNOWN
    if node != NOWHERE:
        for child in range(lm.children[node], lm.children[node + 1]):
            if lm.symbols[child] == symbol:
                return child, before, last
    return NOWHERE, before, last


@numba.njit(nogil=True, forceinline=True)
def begun_phones(lm: Language, node: int) -> Array:
    """Return the phones that the letters up to a node have in the likeliest word below it."""
    if node in (NOWHERE, ROOT):
        return lm.spoken[:0]
    first = lm.spoken_starts[lm.likeliest[node]]
    return lm.spoken[first : first + lm.said[node]]


@numba.njit(nogil=True, forceinline=True)
def ends_word(lm: Language, node: int) -> bool:
    """Return whether a word of the lexicon ends at a node."""
    return bool(node != NOWHERE and lm.words[node] >= 0)


@numba.njit(nogil=True, forceinline=True)
def word_phones(lm: Language, node: int) -> Array:
    """Return the phones of the word that ends at a node; none if they are not known."""
    if not ends_word(lm, node):
        return lm.spoken[:0]
    word = lm.words[node]
    return lm.spoken[lm.spoken_starts[word] : lm.spoken_starts[word + 1]]
