"""Phrases that a stream expects, such as names: letters that lead to them are likelier, compiled.

The phrases are a tree of letters in the stream's state. Where a hypothesis goes on along it, each
letter but the first gains a bonus; where the text leaves the tree before the phrase's last word has
ended, all of that is given back. (As contextual biasing by shallow fusion has it, Zhao et al. 2019;
with the links of Aho and Corasick 1975 a phrase may begin at any word of another.) A node is a
function of the text, so hypotheses of one text agree on it.

A word of a phrase that the language model's lexicon lacks is one of the stream's lexicon: it costs
nothing to leave the other for it, and its phones are looked for like those of any other word.
"""

import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.jit import inlined, uncounted
from cortado.model.vocabulary import Vocabulary

NODES = 512  # of a stream's tree, its root included
SYMBOL, CHILD, SIBLING, LINK, OWED, KEPT, FINAL, FIRST, SAID = range(9)  # known of a node
PARTS = 9
LETTERS = 4 * NODES  # that are pronounced, at most: words may share beginnings, and take time
PHONES = NODES  # of a stream's phrases, at most: what does not fit is not looked for
FREE = 1  # first letters of a phrase, which gain nothing: many words begin so
ROOT = 0  # at the beginning of a word; its SYMBOL is the space
OUTSIDE = -1  # in a word that no phrase has there
PLAIN = {"’": "'", "ʼ": "'", "ø": "o", "ł": "l", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe"}


# Returns a word's phones, and for each of its symbols how many of them end with it.
Pronounce = Callable[[Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class PhrasesError(ValueError):
    """Phrases that a stream cannot have."""


class Expected(NamedTuple):
    """The phrases that a stream expects."""

    tree: Array  # (NODES, PARTS) int16
    phones: Array  # (PHONES,) int32: of their words, one behind the other


def expecting(
    phrases: Sequence[str], vocabulary: Vocabulary, pronounce: Pronounce | None = None
) -> Expected:
    """Return the tree of phrases, and how their words are pronounced if `pronounce` can tell.

    Letters are taken as the vocabulary has them, in lower case and without accents that it lacks;
    what else it lacks divides words.

    Raises:
        PhrasesError: the vocabulary has no space, a phrase has none of its letters, or all have
            more letters than fit.
    """
    if " " not in vocabulary.names:
        raise PhrasesError("expected no phrases with a vocabulary that has no space")
    nodes: list[dict[int, int]] = [{}]
    above, finals = [(ROOT, 0)], set()
    space = vocabulary.names.index(" ")
    paths = []
    for phrase in phrases:
        path = [ROOT]
        for symbol in _spelt(phrase, vocabulary):
            at = path[-1]
            if symbol not in nodes[at]:
                nodes[at][symbol] = len(nodes)
                nodes.append({})
                above.append((at, symbol))
            path.append(nodes[at][symbol])
        finals.add(path[-1])
        paths.append(path[1:])
    if len(nodes) > NODES:
        raise PhrasesError(
            f"expected phrases of at most {NODES - 1} letters and spaces, beginnings that they "
            f"share counted once, got {len(nodes) - 1}"
        )
    found = Expected(_packed(nodes, above, finals, space), np.zeros(PHONES, np.int32))
    if pronounce:
        _add_phones(paths, space, pronounce, found)
    return found


def _add_phones(
    paths: Sequence[Sequence[int]], space: int, pronounce: Pronounce, found: Expected
) -> None:
    """Pronounce the words along the nodes of phrases.

    Of words that begin alike, a node has the phones of the one that ends there, or else of the
    first that was added.
    """
    tree, phones = found
    first, letters, ends = 0, 0, set()
    for path in paths:
        for is_space, nodes in groupby(path, lambda node: bool(tree[node, SYMBOL] == space)):
            word = [*nodes]
            if is_space or word[-1] in ends or letters + len(word) > LETTERS:
                continue
            letters += len(word)
            spoken, stops = pronounce(tree[word, SYMBOL].tolist())
            if first + len(spoken) > PHONES:
                continue
            phones[first : first + len(spoken)] = spoken
            for node, stop in zip(word, stops, strict=True):
                if node not in ends and (node == word[-1] or not tree[node, SAID]):
                    tree[node, FIRST], tree[node, SAID] = first, stop
            ends.add(word[-1])
            first += len(spoken)


def _spelt(phrase: str, vocabulary: Vocabulary) -> list[int]:
    composed = unicodedata.normalize("NFC", phrase.lower())
    plain = "".join(map(partial(_plain, vocabulary=vocabulary), composed))
    known = "".join(one if one in vocabulary.names else " " for one in plain)
    words = " ".join(known.split())
    if not words:
        raise PhrasesError(f"expected a phrase with letters of the vocabulary, got {phrase!r}")
    return vocabulary.encode(words)


def _plain(character: str, vocabulary: Vocabulary) -> str:
    """Return a character without the accent that the vocabulary lacks."""
    if character in vocabulary.names:
        return character
    decomposed = PLAIN.get(character) or unicodedata.normalize("NFKD", character)
    return "".join(one for one in decomposed if not unicodedata.combining(one))


def _packed(
    nodes: Sequence[dict[int, int]],
    above: Sequence[tuple[int, int]],
    finals: set[int],
    space: int,
) -> Array:
    """Return the arrays of a tree; `above` has each node's parent and symbol, parents first."""
    found = np.zeros((NODES, PARTS), np.int16)
    found[list(finals), FINAL] = 1
    found[ROOT, SYMBOL] = space
    for node, children in enumerate(nodes):
        for symbol, child in children.items():
            found[child, SYMBOL] = symbol
            found[child, SIBLING], found[node, CHILD] = found[node, CHILD], child
    matched, depth = [0] * len(nodes), [0] * len(nodes)  # letters; letters and spaces
    secured = [0] * len(nodes)  # of the letters, those of whole phrases within
    for node, (parent, _) in enumerate(above[1:], 1):
        depth[node] = depth[parent] + 1
    for node in sorted(range(1, len(nodes)), key=depth.__getitem__):  # links lead to shallower ones
        parent, symbol = above[node]
        ends = symbol == space and found[parent, FINAL]
        matched[node] = 0 if ends else matched[parent] + 1
        kept = int(found[parent, KEPT]) if symbol == space else 0
        secured[node] = 0 if ends else secured[parent] + kept
        found[node, OWED] = max(0, matched[node] - FREE - secured[node])
        start = int(found[parent, LINK]) if parent != ROOT else OUTSIDE
        # Not compiled: a server's first stream with phrases would hold all others up for that.
        link = found[node, LINK] = followed.py_func(found, start, symbol)
        within = 0 if link == OUTSIDE else found[link, KEPT]
        owed = found[node, OWED]
        found[node, KEPT] = owed if found[node, FINAL] else min(within, owed)
    return found


@uncounted()
def followed(tree: Array, node: int, symbol: int) -> int:
    """Return the node after one more symbol."""
    while node != OUTSIDE:
        child = tree[node, CHILD]
        while child != ROOT and tree[child, SYMBOL] != symbol:
            child = tree[child, SIBLING]
        if child != ROOT:
            return child
        if node == ROOT:
            break
        node = tree[node, LINK]
    return ROOT if symbol == tree[ROOT, SYMBOL] else OUTSIDE


@uncounted()
def gain(tree: Array, node: int, symbol: int) -> int:
    """Return the letters that count for a phrase after one more symbol, less those before."""
    following = followed(tree, node, symbol)
    after = tree[following, OWED] if following != OUTSIDE else 0
    if node == OUTSIDE:
        return after
    kept = tree[node, KEPT] if symbol == tree[ROOT, SYMBOL] else 0  # of a whole phrase
    return after - (tree[node, OWED] - kept)


@uncounted()
def ends_word(tree: Array, node: int) -> bool:
    """Return whether a word of a phrase ends at a node."""
    child = tree[node, CHILD]
    while child != ROOT and tree[child, SYMBOL] != tree[ROOT, SYMBOL]:
        child = tree[child, SIBLING]
    return bool(child != ROOT or tree[node, FINAL])


@uncounted()
def unfinished(tree: Array, node: int) -> int:
    """Return the letters that count for a phrase which a text that ends here does not finish."""
    return 0 if node == OUTSIDE else tree[node, OWED] - tree[node, KEPT]


@inlined
def spoken(tree: Array, phones: Array, node: int) -> Array:
    """Return the phones that the letters of the last word have; none outside of phrases."""
    if node == OUTSIDE:
        return phones[:0]
    first = tree[node, FIRST]
    return phones[first : first + tree[node, SAID]]


@uncounted()
def weigh(tree: Array, node: int, bonus: np.float32, scores: Array) -> None:
    """Add to (V,) scores in nats what each symbol gains behind a node."""
    for v in range(len(scores)):
        scores[v] += bonus * np.float32(gain(tree, node, v))
