"""The lexicon searched for what else a committed word may have been, compiled.

The search commits letters early and drops what contradicts them, so when a word is whole its beam
holds no other any more. But the phone head's scores of the last frames are remembered. So the
lexicon is searched in the frames of that one word: its tree of letters is walked level by level,
and the `WIDTH` nodes with the highest bounds are kept. A bound is the probability of all words
below a node after the two words before (language_model.py), and the score of the phones that the
node's letters have, up to their best frame (pronunciation.py). No later phone can raise that.

The attention and the CTC head do not count: they have heard the committed letters only.
"""

import numpy as np

from cortado.model.arrays import Array
from cortado.model.compiled.jit import cached_njit
from cortado.model.compiled.viterbi import IMPOSSIBLE
from cortado.model.search import language_model as language
from cortado.model.search import pronunciation
from cortado.model.search.language_model import NOWHERE, ROOT, Language
from cortado.model.search.pronunciation import FORGOTTEN, HISTORY, NOW, REACHED

MOST = 10  # alternatives of a word
WIDTH = 64  # nodes of the tree that are kept at each letter
DELAY = 6  # frames from the beginning of most words to their first letters
AGE = 3  # place in a stream's state
PHONES = np.float32(1)  # weight of the phones' score beside the language model's, both in nats


@cached_njit()
def follow(
    rows: Array,
    symbols: Array,
    late: Array,
    ended: Array,
    heard: Array,
    lm: Language,
    begun: Array,
    state: Array,
    nodes: Array,
    scores: Array,
) -> None:
    """Follow the committed symbols of a step; find what else the words may have been that end.

    Args:
        rows: (R,) which streams.
        symbols: (R, N) that are committed, -1 for none.
        late: (R, N) frames from each symbol's own to the newest.
        ended: (R,) whether the utterance ends after them.
        heard: (R, HISTORY, P) of the phones at the last frames, oldest first.
        lm: the language model, which knows how its words are pronounced.
        begun: (S, PLACES) scores of all streams by the frame at which the last word ended.
        state: (S, 4) of the language model: the word's node, the two words before; and the frames
            since the word's first letter.
        nodes: (R, N + 1, MOST) set to those of the likeliest words, the best first, -1 for none: in
            place of the word that each symbol ends, and of the one that ends with the utterance.
        scores: (R, N + 1, MOST) set to their scores in nats.
    """
    nodes[:], scores[:] = NOWHERE, IMPOSSIBLE
    for r in range(len(rows)):
        own, text = begun[rows[r]], state[rows[r]]
        pronunciation.advance(own, heard[r])
        text[AGE] += 1
        for n in range(symbols.shape[1]):
            if symbols[r, n] == lm.space and text[0] != ROOT:
                _end_word(own, heard[r], lm, text, nodes[r, n], scores[r, n])
            elif symbols[r, n] >= 0:
                if text[0] == ROOT:
                    text[AGE] = late[r, n]
                text[0] = language.followed(lm, text[0], text[1], text[2], symbols[r, n])[0]
        if ended[r]:
            if text[0] != ROOT:
                _end_word(own, heard[r], lm, text, nodes[r, -1], scores[r, -1])
            text[:], own[:] = ROOT, IMPOSSIBLE
        if own.max() < FORGOTTEN:  # the word lasts longer than what is remembered
            own[NOW] = 0
        pronunciation.rebase(own, own.max(), own)


@cached_njit(forceinline=True)
def _end_word(
    begun: Array, heard: Array, lm: Language, text: Array, nodes: Array, scores: Array
) -> None:
    """Find what else a stream's word may have been, and begin the next.

    Where its beginning is forgotten, the frames are mostly those of others, and nothing is found.
    """
    node, before, last, age = text
    if age + DELAY < HISTORY:
        _search(begun, heard, lm, node, language.after(lm, before, last), nodes, scores)
    ended, reached = np.zeros(HISTORY, np.float32), np.zeros(REACHED, np.float32)
    pronunciation.fit(begun, heard, language.word_phones(lm, node), ended, reached)
    pronunciation.finish(ended, heard, begun)
    text[0], text[1], text[2] = language.followed(lm, node, before, last, lm.space)


@cached_njit()
def _search(
    begun: Array,
    heard: Array,
    lm: Language,
    own: int,
    after: language.After,
    nodes: Array,
    scores: Array,
) -> None:
    """Find the likeliest words but the one at node `own`; arguments as for `follow`."""
    ended, reached = np.zeros(HISTORY, np.float32), np.zeros(REACHED, np.float32)
    kept, bounds = np.zeros(WIDTH, np.int32), np.zeros(WIDTH, np.float32)
    level = np.zeros(1, np.int32)  # the root
    while len(level):
        bounds[:] = IMPOSSIBLE
        for node in level:
            for child in range(lm.children[node], lm.children[node + 1]):
                if lm.symbols[child] < 0:
                    continue
                word = lm.words[child]
                if word >= 0 and child != own:
                    score = _probability(lm, after, word, word + 1)
                    if score > scores[-1]:
                        phones = language.word_phones(lm, child)
                        fit = pronunciation.fit(begun, heard, phones, ended, reached)
                        score += PHONES * fit
                        _insert(score, child, scores, nodes)
                bound = _probability(lm, after, lm.lows[child], lm.highs[child])
                if bound > max(bounds[-1], scores[-1]):
                    phones = language.begun_phones(lm, child)
                    if len(phones):
                        pronunciation.fit(begun, heard, phones, ended, reached)
                        bound += PHONES * ended.max()
                    if bound > scores[-1]:
                        _insert(bound, child, bounds, kept)
        level = kept[bounds > IMPOSSIBLE]


@cached_njit(forceinline=True)
def _probability(lm: Language, after: language.After, low: int, high: int) -> np.float32:
    """Return the weighed log-probability of the words from `low` to before `high`, in nats."""
    return np.float32(lm.weight) * language.log_probability(lm, after, low, high)


@cached_njit(forceinline=True)
def _insert(score: np.float32, node: int, scores: Array, nodes: Array) -> None:
    """Put a node with a score among others, the highest first; the last falls out."""
    n = len(scores) - 1
    if score <= scores[n]:
        return
    while n > 0 and scores[n - 1] < score:
        scores[n], nodes[n] = scores[n - 1], nodes[n - 1]
        n -= 1
    scores[n], nodes[n] = score, node
