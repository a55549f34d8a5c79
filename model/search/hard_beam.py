"""Beam search with hard stops over whole utterances (Chiu & Raffel 2018, algorithm 1).

Each hypothesis scans on from the frame where its last symbol stopped, and stops at the first frame
with p >= 0.5. Any number of symbols may stop at one frame. A hypothesis ends where its scan runs
off the end of the input: these models write no end of sequence. With one hypothesis it is the
algorithm as it is printed; appendix A searches with eight, pruned by 3 nats.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cortado.model.attention.interface import MonotonicAttention, stops
from cortado.model.decoder.decoder import AttentionDecoder, Memory
from cortado.model.layer import select
from cortado.model.search.expected_beam import PRUNING, Hypothesis, Path, better, extend, ranked


class Frames(NamedTuple):
    """An utterance as the scans see it."""

    scan: Tensor  # (T, d) keys of the monotonic energy
    chunk: Tensor  # (T, d') keys of the chunk energy
    values: Tensor  # (T, H) encoder frames


class Scans(NamedTuple):
    """Where the scans of K hypotheses are."""

    frames: Tensor  # (K,) of the last stop, -1 before the first
    valid: Tensor  # (K, w) false on those of the w frames up to there that a chunk may not reach


def hard_beam_search(
    decoder: AttentionDecoder,
    values: Tensor,
    limit: int,
    width: int,
    pruning: float = PRUNING,
) -> Path:
    """Return the best text's symbols, `limit` at most, for (T, H) encoder frames.

    Args:
        decoder: with a monotonic attention.
        values: encoder frames.
        limit: of symbols, since a scan that stops at one frame for ever has no end.
        width: hypotheses.
        pruning: nats below the best hypothesis of the same length at which others are dropped.
    """
    if not len(values):
        return ()
    attention: MonotonicAttention = decoder.attention
    frames = Frames(attention.scan_key(values), attention.chunk_key(values), values)
    memory, scores, paths = decoder.beginning(1), values.new_zeros(1), list[Path]([()])
    reach = torch.zeros(1, attention.window, dtype=torch.bool)
    scans = Scans(torch.full((1,), -1), reach)
    finished = Hypothesis(-torch.inf, ())
    for count in range(limit + 1):
        stopped, scans = next_stops(decoder, frames, memory, scans)
        finished = better(finished, scores.where(~stopped, -torch.inf), paths)
        scores = scores.where(stopped, -torch.inf)
        if count == limit or not scores.max() > finished.score:  # no text gains by going on
            break
        context = attention.context(decoder.query(memory), *windows(frames, scans))
        logits, output = decoder.write(context, memory)
        going = scores.unsqueeze(1) + logits.log_softmax(1)  # -inf where the scan has ended
        best = ranked(going, width, pruning)
        scores, rows, symbols = (part[best[0] > -torch.inf] for part in best)
        paths = extend(paths, rows, symbols, scans.frames)
        memory = decoder.read(symbols, select(output, rows))
        valid = attention.stopped(scans.valid, torch.ones_like(stopped))
        scans = Scans(scans.frames[rows], valid[rows])
    return finished.path if finished.score > -torch.inf else paths[0]  # none has ended


def next_stops(
    decoder: AttentionDecoder, frames: Frames, memory: Memory, scans: Scans
) -> tuple[Tensor, Scans]:
    """Return which hypotheses (K,) stop again, and where; the others keep their places."""
    attention: MonotonicAttention = decoder.attention
    count, query = len(frames.values), decoder.query(memory)
    each = query.repeat_interleave(count, 0), frames.scan.repeat(len(query), 1)
    stopping = stops(attention.energy(*each), None).view(len(query), count)
    stopping &= torch.arange(count) >= scans.frames.unsqueeze(1)
    stopped = stopping.any(1)
    at = torch.where(stopped, stopping.int().argmax(1), scans.frames)
    width = scans.valid.shape[1]
    moved = torch.arange(width) + (at - scans.frames).unsqueeze(1)  # what was there before
    valid = scans.valid.gather(1, moved.clamp(max=width - 1)) | (moved >= width)
    return stopped, Scans(at, valid)


def windows(frames: Frames, scans: Scans) -> tuple[Tensor, Tensor, Tensor]:
    """Return chunk keys (K, w, d'), values (K, w, H) and which of them (K, w) a stop may reach."""
    width = scans.valid.shape[1]
    places = scans.frames.unsqueeze(1) + torch.arange(1 - width, 1)
    inside = places.clamp(min=0)
    return frames.chunk[inside], frames.values[inside], scans.valid
