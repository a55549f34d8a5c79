"""Files of language models: read, unpacked and checked, for a recogniser's vocabulary."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from cortado.model.arrays import Array
from cortado.model.search import neural_language_model, source_model
from cortado.model.search.language_model import NONE, UNKNOWN, Language, levels
from cortado.model.search.neural_language_model import Neural
from cortado.model.vocabulary import Vocabulary

FILE = "language.safetensors"  # in a checkpoint's folder
FORMAT, PACKED = "1", "2"  # of files: as it is used, and as it takes less room
BOUNDS = {"children": 1, "starts": 0, "ends": 0, "spoken_starts": 0}  # and where they begin
STEPS = 16  # of a nat, in which a packed file has the logarithms of bigrams and trigrams
INDICES = ("children", "words", "lows", "highs", "starts", "seconds", "ends", "thirds")
PRONUNCIATION = ("spoken", "spoken_starts", "likeliest", "said")  # what a file may lack
LETTERS = "taken"  # of pronunciations: what an older file lacks
NEURAL = "neural_"  # begins the names of what a file has of a neural model
SHARE = "neural_share"  # of its probability in the mixture
VECTORS = "neural_vectors"
LAYERS = ("hidden", "hidden_biases", "output", "output_biases")
BROKEN = (  # what reading a file raises whose arrays are not as they should be
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    OSError,
    SafetensorError,
)


class LanguageError(ValueError):
    """A language model that is missing, broken, or does not fit the vocabulary."""


def read_language(path: Path, vocabulary: Vocabulary) -> Language:
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
        found = f"another or a broken one ({type(error).__name__}: {error})"
        expected = f"expected a file made by cortado lm at {path}"
        raise LanguageError(f"{expected}, got {found}") from error


def language_of(folder: Path, vocabulary: Vocabulary, named: str | None = None) -> Language:
    """Return the language model to use with a checkpoint's recogniser.

    Args:
        folder: of the checkpoint, whose own language model is the default.
        vocabulary: of the recogniser.
        named: a language model's file, a folder with one, or "none"; None for the default.

    Raises:
        LanguageError: it is missing or broken, or the vocabulary has no space; or the source model
            of the checkpoint is broken.
    """
    path = language_path(folder, named)
    if path is None:
        return NONE
    words = read_language(path, vocabulary)
    if not (folder / source_model.FILE).exists():
        return words
    try:
        scores, share = source_model.read(folder / source_model.FILE, len(vocabulary))
    except ValueError as error:
        raise LanguageError(str(error)) from error
    return words._replace(source=np.float32(share * words.weight) * scores)


def language_path(folder: Path, named: str | None = None) -> Path | None:
    """Return the file that `language_of` reads, None for none."""
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
    whole = {name: _indices(name, parts) for name in ("letters", *INDICES)}
    logs = {name: parts[name].astype(float) for name in ("unigrams", "bigrams", "trigrams")}
    _check(whole, logs, len(letters))
    unigram, left1 = np.exp(logs["unigrams"]).T.copy()
    bigram, left2 = np.exp(logs["bigrams"]).T.copy()
    first, history, lower = bigrams_of(whole)
    more2 = bigram - left1[first] * unigram[whole["seconds"]]
    more3 = np.exp(logs["trigrams"]) - left2[history] * bigram[lower]
    numbers = {name: float(about[name]) for name in ("weight", "bonus", "leaving", "letter")}
    if not all(map(math.isfinite, numbers.values())):
        raise ValueError(f"expected finite numbers, got {numbers}")
    if numbers["weight"] <= 0 or numbers["leaving"] > 0 or numbers["letter"] > 0:
        raise ValueError(f"expected a weight above 0 and prices at most 1, got {numbers}")
    symbols = letters[whole.pop("letters")]
    everything: dict[str, Any] = numbers | whole | _pronunciation(parts, len(unigram))
    everything["neural"] = _neural(about, parts, unigram)
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


def bigrams_of(whole: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Return each bigram's first word, and the bigrams of each trigram's first and last two."""
    words = len(whole["starts"]) - 1
    first = np.repeat(np.arange(words, dtype=np.int64), np.diff(whole["starts"]))
    second = whole["seconds"].astype(np.int64)
    history = np.repeat(np.arange(len(second)), np.diff(whole["ends"]))
    wanted = second[history] * words + whole["thirds"]
    return first, history, np.searchsorted(first * words + second, wanted)


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
    phones, byte = len(found["spoken"]), np.iinfo(np.uint8).max
    _check_bounds(found, "spoken_starts", words, 0, phones)
    _check_range(found, "spoken", phones, 0, byte)
    _check_range(found, "likeliest", nodes, 0, words - 1)
    _check_range(found, "said", nodes, 0, byte)
    lengths = np.diff(starts)[found["likeliest"]]
    found["said"] = np.minimum(found["said"], lengths)
    if LETTERS in parts:
        found[LETTERS] = unpacked_counts(_indices(LETTERS, parts), _letters(parts))
    return found


def _neural(about: Mapping[str, str], parts: Mapping[str, Array], unigram: Array) -> Neural:
    """Return the neural language model of a file, or none if it has none.

    A file has its words' vectors in bytes, and what a byte's step is for each.
    """
    if VECTORS not in parts:
        return neural_language_model.NONE
    share = float(about[SHARE])
    if not 0 < share < 1:
        raise ValueError(f"expected {SHARE} between 0 and 1, got {share}")
    found = {name: parts[NEURAL + name].astype(np.float32) for name in ("steps", "biases", *LAYERS)}
    codes, words = parts[VECTORS], len(unigram)
    if codes.ndim != 2 or codes.dtype != np.int8 or not codes.size:
        raise ValueError(f"expected {VECTORS} as bytes, got {codes.dtype} of shape {codes.shape}")
    (count, size), width = codes.shape, len(found["hidden_biases"])
    shapes = {
        "steps": (count,),
        "biases": (count,),
        "hidden": (len(found["hidden"]) // size * size, width),
        "output": (width, size),
        "output_biases": (size,),
    }
    for name, shape in shapes.items():
        if found[name].shape != shape:
            raise ValueError(f"expected {NEURAL}{name} of shape {shape}, got {found[name].shape}")
    if len(found["hidden"]) < 2 * size:
        raise ValueError(f"expected a history of at least 2 words, got {NEURAL}hidden for less")
    if not all(np.isfinite(part).all() for part in found.values()):
        raise ValueError("expected finite weights of the neural model, got others")
    rows = _indices(NEURAL + "rows", parts)
    _check_range({"rows": rows}, "rows", words, 0, count - 1)
    within = np.log(unigram / np.bincount(rows, unigram, count)[rows]).astype(np.float32)
    vectors = codes * found["steps"][:, None]
    layers = (found[name] for name in LAYERS)
    return Neural(share, rows, within, vectors, found["biases"], *layers)


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
    shapes = {"unigrams": (words, 2), "bigrams": (bigrams, 2), "trigrams": (trigrams,)}
    for name, shape in shapes.items():
        if logs[name].shape != shape:
            raise ValueError(f"expected {name} of shape {shape}, got {logs[name].shape}")
    _check_bounds(whole, "children", nodes, 1, nodes)
    _check_bounds(whole, "starts", words, 0, bigrams)
    _check_bounds(whole, "ends", bigrams, 0, trigrams)
    _check_range(whole, "letters", nodes, 0, letters - 1)
    _check_range(whole, "words", nodes, -1, words - 1)
    _check_range(whole, "lows", nodes, 0, words)
    _check_range(whole, "highs", nodes, 0, words)
    _check_range(whole, "seconds", bigrams, 0, words - 1)
    _check_range(whole, "thirds", trigrams, 0, words - 1)
    if not all((np.isfinite(part) & (part <= 0)).all() for part in logs.values()):
        raise ValueError("expected finite logarithms, none above 0, got others")


def _check_bounds(parts: Mapping[str, Array], name: str, count: int, first: int, last: int) -> None:
    _check_range(parts, name, count + 1, first, last)
    found = parts[name]
    if (found[0], found[-1]) != (first, last) or (np.diff(found) < 0).any():
        raise ValueError(f"expected {name} that ascend from {first} to {last}, got others")


def _check_range(parts: Mapping[str, Array], name: str, count: int, least: int, most: int) -> None:
    found = parts[name]
    if len(found) != count:
        raise ValueError(f"expected {count} {name}, got {len(found)}")
    if count and not least <= found.min() <= found.max() <= most:
        span = f"{found.min()} to {found.max()}"
        raise ValueError(f"expected {name} from {least} to {most}, got {span}")
