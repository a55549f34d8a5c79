"""Beam search for texts: by the expected weights of training, or by hard stops.

Ranking, pruning and stopping are the search's for speech (model/search). What differs is the end: a
text ends by a symbol, which has to be among the best continuations, and texts of different
lengths compete by their mean log-probability. A scan that ran off the source goes on without a
context, as in training (Raffel et al. 2017, algorithm 1).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cortado.model.decoder.decoder import Memory
from cortado.model.layer import select
from cortado.model.search.expected_beam import PRUNING, ranked
from cortado.model.search.hard_beam import Frames, Scans, next_stops, windows
from cortado.training.text.model import TextModel
from cortado.training.text.vocabulary import UNKNOWN


class Written(NamedTuple):
    """A text that was found."""

    symbols: tuple[int, ...]  # without the end
    weights: Tensor  # (U, T) of the source's words in each symbol's context


class Attended(NamedTuple):
    """The attention of K hypotheses for their next symbol."""

    context: Tensor  # (K, H)
    weights: Tensor  # (K, T)
    state: tuple[Tensor, ...]  # of the attention, for the symbol after it; K on dim 0


Attend = Callable[[Memory, tuple[Tensor, ...]], Attended]


class Source(NamedTuple):
    """One source text, and what it may be copied as."""

    words: Tensor  # (T,)
    copies: Tensor  # (T,) indices, of which those above the end are new to the vocabulary
    extra: int = 0  # such words


@torch.inference_mode()
def search(
    model: TextModel, source: Source, hard: bool, width: int, limit: int, pruning: float = PRUNING
) -> Written:
    """Return the best text of at most `limit` words.

    Args:
        model: in evaluation mode.
        source: what is read.
        hard: stop where p >= 0.5 in place of the expected weights; for monotonic attention.
        width: hypotheses; 1 is greedy.
        limit: words, at which a text ends in any case.
        pruning: nats below the best hypothesis of the same length at which others are dropped.

    Raises:
        ValueError: hard stops of an attention that has none.
    """
    decoder = model.decoder
    if hard and not decoder.online:
        name = type(decoder.attention).__name__
        raise ValueError(f"expected a monotonic attention for hard stops, got {name}")
    encoded = model.encoder.encode(source.words.unsqueeze(0), torch.tensor([len(source.words)]))
    attend, state = (_hard if hard else _expected)(decoder, encoded.values)
    memory, scores = decoder.beginning(1, model.first(encoded)), torch.zeros(1)
    beam = [Written((), encoded.values.new_zeros(0, len(source.words)))]
    best, best_score = beam[0], -torch.inf
    for count in range(limit + 1):
        attended = attend(memory, state)
        logits, output = decoder.write(attended.context, memory)
        log_probs = model.log_probs(
            logits.unsqueeze(1),
            memory.symbol.unsqueeze(1),
            attended.weights.unsqueeze(1),
            source.copies.expand(len(logits), -1),
            source.extra,
        ).squeeze(1)
        if count == limit:  # it ends here, likely or not
            log_probs[:, torch.arange(log_probs.shape[1]) != decoder.end] = -torch.inf
        scores, rows, symbols = ranked(scores.unsqueeze(1) + log_probs, width, pruning)
        ended = (symbols == decoder.end) & (scores > -torch.inf)
        for k in ended.nonzero()[:, 0].tolist():
            if scores[k] / (count + 1) > best_score:
                best, best_score = beam[rows[k]], float(scores[k] / (count + 1))
        kept = ((symbols != decoder.end) & (scores > -torch.inf)).nonzero()[:, 0]
        width -= int(ended.sum())  # a text that has ended keeps its place in the beam
        if not len(kept) or width < 1:
            break
        scores, rows, symbols = scores[kept], rows[kept], symbols[kept]
        beam = [
            Written(
                (*beam[k].symbols, symbol), torch.cat([beam[k].weights, attended.weights[k, None]])
            )
            for k, symbol in zip(rows.tolist(), symbols.tolist(), strict=True)
        ]
        known = symbols.where(symbols <= decoder.end, UNKNOWN)  # what is read of a copied word
        memory = decoder.read(known, select(output, rows))
        state = tuple(part[rows] for part in attended.state)
    return best


def _expected(decoder: Any, values: Tensor) -> tuple[Attend, tuple[Tensor, ...]]:
    """Return the attention of training to (1, T, H), and its state before the first symbol."""
    attention = decoder.attention
    mask = torch.ones(values.shape[:2], dtype=torch.bool)
    by_count: dict[int, Any] = {}  # keys, for each number of hypotheses

    def attend(memory: Memory, state: tuple[Tensor, ...]) -> Attended:
        count = len(memory.symbol)
        if count not in by_count:
            shape = count, *values.shape[1:]
            by_count[count] = attention.keys(values.expand(shape), mask.expand(count, -1))
        found = attention.attend(decoder.query(memory), by_count[count], state[0])
        return Attended(found.context, found.weights, (found.memory,))

    return attend, (attention.first(mask),)


def _hard(decoder: Any, values: Tensor) -> tuple[Attend, tuple[Tensor, ...]]:
    """Return the attention of hard stops over (1, T, H), and its state before the first symbol."""
    attention, of = decoder.attention, values[0]
    frames = Frames(attention.scan_key(of), attention.chunk_key(of), of)
    count, width = len(of), attention.window

    def attend(memory: Memory, state: tuple[Tensor, ...]) -> Attended:
        stopped, scans = next_stops(decoder, frames, memory, Scans(*state))
        at = scans.frames.clamp(0, count - 1)  # of those that do not stop any
        window, query = windows(frames, scans._replace(frames=at)), decoder.query(memory)
        keys, seen, valid = window[0], window[1], window[2] | ~stopped.unsqueeze(1)
        found = stopped.unsqueeze(1)
        context = attention.context(query, keys, seen, valid) * found
        units = torch.eye(width).expand(len(query), -1, -1)
        shares = attention.context(query, keys, units, valid) * valid * found
        places = (at.unsqueeze(1) + torch.arange(1 - width, 1)).clamp(min=0)
        weights = torch.zeros(len(query), count).scatter_add(1, places, shares)
        ran_off = scans.frames.where(stopped, count)  # for ever: no frame is behind the last
        return Attended(context, weights, (ran_off, attention.stopped(scans.valid, stopped)))

    return attend, (torch.full((1,), -1), torch.zeros(1, width, dtype=torch.bool))
