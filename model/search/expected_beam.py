"""Beam search with expected alignments (Chiu & Raffel 2018, appendix A: 8 wide, pruned by 3).

A hypothesis ends where the scan runs off the end of the input. 1 - sum alpha would give that
probability, but a trained model has 1e-20 where a sum near 1 is rounded by 1e-7. So it is computed
from the energies, as a product. With an attention that is not monotonic a hypothesis ends with an
end-of-sequence symbol. Scores are in nats.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.attention.interface import Attended, Attention
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.layer import select

PRUNING = 3.0  # nats below the best hypothesis of the same length at which others are dropped


class Symbol(NamedTuple):
    """A symbol and the encoder frame where the attention stopped, or had its largest weight."""

    symbol: int
    frame: int


Path = tuple[Symbol, ...]


class Hypothesis(NamedTuple):
    """A finished text."""

    score: float
    path: Path


def beam_search(
    decoder: AttentionDecoder,
    values: Tensor,
    limit: int,
    width: int,
    pruning: float = PRUNING,
) -> Path:
    """Return the best text's symbols, `limit` at most, for (T, H) encoder frames."""
    attention: Attention = decoder.attention
    frames = values.expand(width, *values.shape)
    mask = torch.ones(frames.shape[:2], dtype=torch.bool)
    keys, past = attention.keys(frames, mask), attention.first(mask)
    memory, paths = decoder.beginning(width), list[Path]([()] * width)
    scores = torch.full((width,), -torch.inf)
    scores[0] = 0
    finished = Hypothesis(-torch.inf, ())
    for count in range(limit + 1):
        attended = attention.attend(decoder.query(memory), keys, past)
        logits, output = decoder.write(attended.context, memory)
        going, ending = outcomes(decoder, logits, attended, past)
        finished = better(finished, scores + ending, paths)
        scores, rows, symbols = ranked(scores.unsqueeze(1) + going, width, pruning)
        if count == limit or not scores[0] > finished.score:  # no text gains by going on
            break
        alignment = (attended.memory if decoder.online else attended.weights).argmax(1)
        paths = extend(paths, rows, symbols, alignment)
        past = attended.memory[rows]
        memory = decoder.read(symbols, select(output, rows))
    # At the limit a text may go on still; one that has ended far behind it is no better.
    return paths[0] if scores[0] - pruning > finished.score else finished.path


def better(finished: Hypothesis, scores: Tensor, paths: Sequence[Path]) -> Hypothesis:
    """Return the best of a finished text and those that end now, with (K,) scores."""
    row = int(scores.argmax())
    if scores[row] > finished.score:
        return Hypothesis(float(scores[row]), paths[row])
    return finished


def ranked(scores: Tensor, width: int, pruning: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best of (K, V) continuations, best first: scores, hypotheses and symbols.

    There are `width` at most; those more than `pruning` behind the first have the score -inf.
    """
    best, places = scores.flatten().topk(min(width, scores.numel()))
    symbols = scores.shape[1]
    best = best.where(best >= best[0] - pruning, -torch.inf)
    return best, places // symbols, places % symbols


def extend(paths: Sequence[Path], rows: Tensor, symbols: Tensor, frames: Tensor) -> list[Path]:
    """Return the chosen rows' paths, each with its new symbol at the frame of its row."""
    return [
        (*paths[row], Symbol(symbol, int(frames[row])))
        for row, symbol in zip(rows.tolist(), symbols.tolist(), strict=True)
    ]


def outcomes(
    decoder: AttentionDecoder, logits: Tensor, attended: Attended, past: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of each symbol (K, V) and of the end (K,), in nats.

    Args:
        decoder: whose they are.
        logits: (K, V) of the next symbol; (K, V + 1) with an end of sequence.
        attended: the next symbol's attention.
        past: memory of the attention of the symbol before; alpha (K, T) of a monotonic one.
    """
    log_probs = logits.log_softmax(1)
    if attended.energies is None:
        return log_probs[:, : decoder.end], log_probs[:, decoder.end]
    passed = nn.functional.logsigmoid(-attended.energies.double())  # log(1 - p)
    passed_to_end = passed.flip(1).cumsum(1).flip(1)  # of this frame and all behind it
    begun = past.double().log()  # where the scan begins, given that the last one stopped
    ending = (begun + passed_to_end).logsumexp(1) - begun.logsumexp(1)
    ending = ending.clamp(max=-1e-12)
    going = (-ending.expm1()).log()
    return going.to(log_probs).unsqueeze(1) + log_probs, ending.to(log_probs)
