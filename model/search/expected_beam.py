"""Beam search with expected alignments (Chiu & Raffel 2018, appendix A: 8 wide, pruned by 3).

A hypothesis ends where the scan reaches the end of the input, which has probability 1 - sum alpha.
With an attention that is not monotonic it ends with an end-of-sequence symbol. Scores are in nats.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cortado.model.attention.interface import Attention
from cortado.model.decoder.decoder import AttentionDecoder, Output
from cortado.model.encoder.lstm import LSTMState

WIDTH = 8
PRUNING = 3.0  # nats below the best hypothesis of the same length at which others are dropped

Path = tuple[tuple[int, int], ...]  # (symbol, frame) of each symbol


class Hypothesis(NamedTuple):
    """A finished text."""

    score: float
    path: Path


def beam_search(
    decoder: AttentionDecoder,
    values: Tensor,
    limit: int,
    width: int = WIDTH,
    pruning: float = PRUNING,
) -> Path:
    """Return the best text's (symbol, frame) pairs, `limit` at most, for (T, H) encoder frames."""
    attention: Attention = decoder.attention
    frames = values.expand(width, *values.shape)
    mask = torch.ones(frames.shape[:2], dtype=torch.bool)
    keys, past = attention.keys(frames, mask), attention.first(mask)
    memory, paths = decoder.beginning(width), [()] * width
    scores = torch.full((width,), -torch.inf)
    scores[0] = 0
    finished = Hypothesis(-torch.inf, ())
    for count in range(limit + 1):
        attended = attention.attend(decoder.query(memory), keys, past)
        logits, output = decoder.write(attended.context, memory)
        going, ending = outcomes(decoder, logits, attended.memory)
        ended = scores + ending
        row = int(ended.argmax())
        if ended[row] > finished.score:
            finished = Hypothesis(float(ended[row]), paths[row])
        best, places = (scores.unsqueeze(1) + going).flatten().topk(width)
        scores = best.where(best >= best[0] - pruning, -torch.inf)
        if count == limit or not scores[0] > finished.score:  # no text gains by going on
            break
        rows, symbols = places // going.shape[1], places % going.shape[1]
        alignment = (attended.memory if decoder.online else attended.weights).argmax(1)
        paths = [
            (*paths[row], (symbol, int(alignment[row])))
            for row, symbol in zip(rows.tolist(), symbols.tolist(), strict=True)
        ]
        past = attended.memory[rows]
        memory = decoder.read(symbols, select_rows(output, rows))
    return finished.path if finished.score > -torch.inf else paths[0]  # none has ended


def outcomes(decoder: AttentionDecoder, logits: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of each symbol (K, V) and of the end (K,), in nats."""
    log_probs = logits.log_softmax(1)
    if not decoder.online:
        return log_probs[:, : decoder.end], log_probs[:, decoder.end]
    mass = memory.sum(1).clamp(0, 1)
    return mass.log().unsqueeze(1) + log_probs, (1 - mass).log()


def select_rows(output: Output, rows: Tensor) -> Output:
    """Return an output's chosen rows."""
    (hidden, cell), lstm_input = output
    return Output(LSTMState(hidden[rows], cell[rows]), lstm_input[rows])
