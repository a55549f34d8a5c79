"""Offline decoding of whole utterances, and the attention to a known text.

Monotonic attention decodes in six modes: "hard", as streams do; "uncapped", by algorithm 1 of
Chiu & Raffel 2018, the same without a bound on the symbols of one frame; "hard-beam", a beam search
with such stops; "expected", with the expected alignment of training; "sampled", with stops drawn
from Bernoulli(p), of which training takes the expectation; "beam", a beam search with the expected
alignment. Other attentions have the modes "expected" and "beam". CTC has "hard" alone, its greedy
path.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cortado.model.arrays import Samples, as_samples
from cortado.model.attention.interface import Attention
from cortado.model.config import MAX_SYMBOLS_PER_STEP
from cortado.model.decoder.decoder import AttentionDecoder, Decoder
from cortado.model.emission import FLUSH_STEPS, Character, step_time, to_characters
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.recognizer import Recognizer
from cortado.model.search.expected_beam import Symbol, beam_search
from cortado.model.search.hard_beam import hard_beam_search

Mode = Literal["hard", "uncapped", "hard-beam", "expected", "sampled", "beam"]
HARD: tuple[Mode, ...] = ("hard", "uncapped", "hard-beam")


class TeacherForced(NamedTuple):
    """The attention to each symbol of a known text."""

    alpha: Tensor  # (U, T) expected alignment; the weights where it is not monotonic
    weights: Tensor  # (U, T) of the encoder frames in the contexts


def modes(recognizer: Recognizer) -> Sequence[Mode]:
    """Return the modes in which a recogniser can decode, the default first."""
    decoder = recognizer.decoder
    if not isinstance(decoder, AttentionDecoder):
        return ("hard",)
    return (*HARD, "expected", "sampled", "beam") if decoder.online else ("expected", "beam")


def transcribe_offline(
    recognizer: Recognizer,
    samples: Samples,
    mode: Mode,
) -> list[Character]:
    """Return the characters of a whole recording at 16 kHz.

    Args:
        recognizer: in evaluation mode.
        samples: (N,) in [-1, 1].
        mode: one of `modes(recognizer)`, but not "sampled".

    Raises:
        ValueError: as `decode` does.
    """
    (found,) = transcribe_batch(recognizer, [samples], mode)
    return found


def transcribe_batch(
    recognizer: Recognizer,
    recordings: Sequence[Samples],
    mode: Mode,
) -> list[list[Character]]:
    """Return the characters of several whole recordings at 16 kHz, best of similar lengths.

    The arguments are those of `transcribe_offline`.

    Raises:
        ValueError: as `decode` does, or as `flushed` does.
    """
    if not recordings:
        return []
    rows = [flushed(samples) for samples in recordings]
    lengths = torch.tensor([len(row) // SAMPLES_PER_STEP for row in rows])
    with torch.inference_mode():
        encoded = recognizer.encode(nn.utils.rnn.pad_sequence(rows, batch_first=True))
        found = decode(recognizer, encoded, lengths, mode)
    vocabulary = recognizer.config.vocabulary
    return [
        [
            one
            for symbol, frame in symbols
            for one in to_characters(vocabulary, symbol, seconds(recognizer, frame))
        ]
        for symbols in found
    ]


def teacher_forced(recognizer: Recognizer, samples: Samples, text: str) -> TeacherForced:
    """Return the attention to each symbol of `text` over a recording at 16 kHz.

    `seconds` gives the times of its frames. Where the attention is not monotonic, alpha is the
    weights.

    Raises:
        ValueError: a character that the vocabulary lacks, the CTC head alone, or a recogniser in
            training mode.
    """
    _in_evaluation(recognizer)
    targets = torch.tensor([recognizer.config.vocabulary.encode(text)], dtype=torch.long)
    with torch.inference_mode():
        encoded = recognizer.encode(flushed(samples).unsqueeze(0))
        mask = torch.ones(encoded.shape[:2], dtype=torch.bool)
        decoded = recognizer.decoder.teacher_forced(encoded, mask, targets)
    return TeacherForced(decoded.alpha[0, :-1], decoded.weights[0, :-1])


def flushed(samples: Samples) -> Tensor:
    """Return the samples padded by the silence that follows a stream's end.

    Raises: ValueError where they are not (N,) floats in [-1, 1).
    """
    samples = as_samples(samples)
    missing = -len(samples) % SAMPLES_PER_STEP + FLUSH_STEPS * SAMPLES_PER_STEP
    return torch.from_numpy(np.pad(samples, (0, missing)))


def seconds(recognizer: Recognizer, frame: int) -> float:
    """Return the time in seconds at which an encoder frame, counted from 0, ends."""
    return step_time(frame, recognizer.delay_steps)


@torch.inference_mode()
def decode(
    recognizer: Recognizer,
    encoded: Tensor,
    lengths: Tensor,
    mode: Mode,
    generator: torch.Generator | None = None,
) -> list[list[Symbol]]:
    """Return the symbols of each of several utterances.

    Args:
        recognizer: in evaluation mode.
        encoded: (B, T, H) encoder frames.
        lengths: (B,) of them.
        mode: one of `modes(recognizer)`.
        generator: of the stops in the mode "sampled".

    Raises:
        ValueError: a mode that the recogniser does not have, the mode "sampled" without a
            generator, or a recogniser in training mode.
    """
    _in_evaluation(recognizer)
    known = modes(recognizer)
    if mode not in known:
        raise ValueError(f"expected a mode among {', '.join(known)}, got {mode!r}")
    if (mode == "sampled") != (generator is not None):
        raise ValueError(f"expected a generator for the mode 'sampled' alone, got mode {mode!r}")
    decoder = recognizer.decoder
    if mode in ("hard", "sampled"):
        return scanned(decoder, encoded, lengths, generator)
    assert isinstance(decoder, AttentionDecoder)  # as `modes` says
    limits = MAX_SYMBOLS_PER_STEP * lengths  # that of streams, which have it a frame
    if mode != "expected":
        search = beam_search if mode == "beam" else hard_beam_search
        width = 1 if mode == "uncapped" else recognizer.config.decoder.beam
        rows = zip(encoded, lengths.tolist(), limits.tolist(), strict=True)
        return [list(search(decoder, row[:count], limit, width)) for row, count, limit in rows]
    mask = recognizer.frame_mask(lengths, encoded.shape[1])
    return expected(decoder, encoded, mask, limits)


def scanned(
    decoder: Decoder,
    encoded: Tensor,
    lengths: Tensor,
    generator: torch.Generator | None = None,
) -> list[list[Symbol]]:
    """Return the symbols of the greedy scan, whose stops a generator may draw."""
    if generator is None:
        written = decoder(encoded)
    else:
        assert isinstance(decoder, AttentionDecoder)  # as `modes` says
        written, _ = decoder.step(encoded, decoder.initial_state(len(encoded)), generator)
    found: list[list[Symbol]] = [[] for _ in encoded]
    for row, frame, place in (written >= 0).nonzero().tolist():
        if frame < lengths[row]:
            found[row].append(Symbol(int(written[row, frame, place]), frame))
    return found


def expected(
    decoder: AttentionDecoder, encoded: Tensor, mask: Tensor, limits: Tensor
) -> list[list[Symbol]]:
    """Return the symbols by greedy choice with the expected alignment, `limits` (B,) at most.

    An attention that is not monotonic goes on to the end of sequence; a monotonic one as long as
    it is more likely than not that all its scans so far have stopped.
    """
    attention: Attention = decoder.attention
    keys, past = attention.keys(encoded, mask), attention.first(mask)
    memory = decoder.beginning(len(encoded))
    live = torch.ones(len(encoded), dtype=torch.bool)
    found: list[list[Symbol]] = [[] for _ in encoded]
    for count in range(int(limits.max())):
        attended = attention.attend(decoder.query(memory), keys, past)
        logits, output = decoder.write(attended.context, memory)
        best, past = logits.argmax(1), attended.memory
        live &= past.sum(1) >= 0.5 if decoder.online else best != decoder.end
        live &= count < limits
        if not live.any():
            break
        alignment = past if decoder.online else attended.weights
        for row in live.nonzero()[:, 0].tolist():
            found[row].append(Symbol(int(best[row]), int(alignment[row].argmax())))
        memory = decoder.read(best, output)
    return found


def _in_evaluation(recognizer: Recognizer) -> None:
    if recognizer.training:
        raise ValueError("expected a recogniser in evaluation mode, got one in training mode")
