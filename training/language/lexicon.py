"""The lexicon of a language model: its words as a tree of letters, and how they are pronounced."""

from collections.abc import Mapping, Sequence

import numpy as np

from cortado.model.arrays import Array
from cortado.model.search.language_file import packed_counts
from cortado.model.search.language_model import MOST_TAKEN, UNKNOWN
from cortado.training.alignment.letter_phones import LetterPhones
from cortado.training.data import pronounce

SPECIAL = UNKNOWN + 1  # words that are none of the lexicon


def tree(lexicon: Sequence[str], letters: str) -> dict[str, Array]:
    """Return the nodes of the words' tree, those of a length together: children lie side by side.

    The words are in the order of the letters.
    """
    index = {letter: number for number, letter in enumerate(letters)}
    longest = max(map(len, lexicon))
    spelt = np.full((len(lexicon), longest + 1), -1, np.int16)
    for row, word in enumerate(lexicon):
        spelt[row, : len(word)] = [index[letter] for letter in word]
    names = ("letters", "children", "words", "lows", "highs")
    nodes: dict[str, list[Array]] = {name: [] for name in names}
    nodes["letters"].append(np.zeros(1, np.int16))
    rows = np.arange(len(lexicon))  # those that are as long as the nodes, or longer
    at = np.zeros(len(lexicon), np.int64)  # the node of each
    first = 1  # of the nodes of the next length
    for length in range(longest + 1):
        count = int(at.max()) + 1
        low = np.searchsorted(at, np.arange(count + 1))
        nodes["lows"].append(SPECIAL + rows[low[:-1]])
        nodes["highs"].append(SPECIAL + rows[low[1:] - 1] + 1)
        words, done = np.full(count, -1), spelt[rows, length] < 0
        words[at[done]] = SPECIAL + rows[done]
        nodes["words"].append(words)
        pairs = at[~done] * len(letters) + spelt[rows[~done], length]
        found, below = np.unique(pairs, return_inverse=True)
        nodes["children"].append(first + np.searchsorted(found, np.arange(count) * len(letters)))
        nodes["letters"].append((found % len(letters)).astype(np.int16))
        first += len(found)
        rows, at = rows[~done], below
    nodes["children"].append(np.array([first]))
    return {name: np.concatenate(parts) for name, parts in nodes.items()}


def pronunciations(arrays: Mapping[str, Array], letters: str) -> dict[str, Array]:
    """Return further arrays of a language model's file: how espeak-ng pronounces its words.

    Args:
        arrays: those of `estimate`.
        letters: given to it.

    Raises:
        PronunciationError: espeak-ng is missing, or has failed.
    """
    words, depths = spelt(arrays, letters)
    lexicon = pronounce.lexicon(filter(None, words))
    phones = [tuple(lexicon.get(word, ())) for word in words]
    shared = LetterPhones(lexicon)
    stops = [shared.segment(word, spoken) for word, spoken in zip(words, phones, strict=True)]
    uses = arrays["unigrams"][:, 0]
    bounds = zip(arrays["lows"], arrays["highs"], strict=True)
    likeliest = np.array([low + int(uses[low:high].argmax()) for low, high in bounds])
    said = [
        stops[word][depth - 1] if depth else 0
        for word, depth in zip(likeliest, depths, strict=True)
    ]
    return {
        "spoken": 1 + np.array([phone for spoken in phones for phone in spoken], np.int64),
        "spoken_starts": np.cumsum([0, *map(len, phones)]),
        "likeliest": likeliest,
        "said": np.array(said),
        "taken": packed_counts(np.concatenate([*map(_taken, stops)])),
    }


def _taken(stops: Sequence[int]) -> Array:
    """Return how many phones each letter takes, by where they end; none if one takes too many."""
    counts = np.diff(np.array(stops, np.int64), prepend=0)
    return counts * (counts.max(initial=0) <= MOST_TAKEN)


def spelt(arrays: Mapping[str, Array], letters: str) -> tuple[list[str], list[int]]:
    """Return the words by number, those that are none as empty, and each node's depth."""
    words = [""] * len(arrays["unigrams"])
    depths = [0] * len(arrays["words"])
    beginnings = [""] * len(depths)
    for node, word in enumerate(arrays["words"]):  # children come behind their parents
        if word >= 0:
            words[word] = beginnings[node]
        for child in range(arrays["children"][node], arrays["children"][node + 1]):
            beginnings[child] = beginnings[node] + letters[arrays["letters"][child]]
            depths[child] = depths[node] + 1
    return words, depths
