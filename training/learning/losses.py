"""The losses of training: CTC, the decoder's cross-entropy, and losses that guide the attention."""

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.recognizer import Recognizer
from cortado.training.alignment.ctc import last_frames
from cortado.training.data.batches import Batch
from cortado.training.learning.device import ctc_loss, mixed_precision
from cortado.training.learning.smoothing import localised
from cortado.training.learning.stage import Stage

NEAR = 2  # frames around a symbol's own where a guided attention may lie


def encode(recognizer: Recognizer, batch: Batch) -> Tensor:
    """Return the (B, T', H) encoder frames of a batch, in mixed precision."""
    with mixed_precision(batch.logmel.device):
        return recognizer.encode_logmel(batch.logmel)


def losses(
    recognizer: Recognizer, batch: Batch, stage: Stage, encoded: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the stage's losses by name, each per symbol; "total" is their weighted sum.

    Args:
        recognizer: what learns.
        batch: what it learns from.
        stage: which losses, and their weights.
        encoded: what `encode` returned for the batch, for a caller that needs it too.
    """
    encoded = (encode(recognizer, batch) if encoded is None else encoded).float()
    log_probs = recognizer.ctc(encoded).log_softmax(2)  # (B, T, V + 1)
    symbols = batch.target_lengths.sum().clamp(min=1)
    blank = len(recognizer.config.vocabulary)
    parts = {
        "ctc": ctc_loss(
            log_probs.transpose(0, 1),
            batch.targets,
            batch.lengths,
            batch.target_lengths,
            blank,
            "sum",
            zero_infinity=True,
        )
        / symbols
    }
    if stage.consistency:
        frames = recognizer.frame_mask(batch.lengths, log_probs.shape[1])
        parts["consistency"] = divergence(log_probs, frames) / symbols
    if (stage.attention or stage.stop) and isinstance(recognizer.decoder, AttentionDecoder):
        decoder = decoder_losses(recognizer, batch, stage, encoded, log_probs.detach())
        for name, loss in decoder.items():  # both have a consistency
            parts[name] = parts[name] + loss if name in parts else loss
    weighted = [getattr(stage, name) * loss for name, loss in parts.items()]
    return parts | {"total": torch.stack(weighted).sum()}


def add(parts: dict[str, Tensor], name: str, weight: float, loss: Tensor) -> None:
    """Put one more loss among the others, weighed in their total."""
    parts[name] = loss
    parts["total"] = parts["total"] + weight * loss


def decoder_losses(
    recognizer: Recognizer, batch: Batch, stage: Stage, encoded: Tensor, log_probs: Tensor
) -> dict[str, Tensor]:
    """Return the losses of the teacher-forced decoder by name.

    Losses of stops exist for monotonic attention only; other attentions learn an end of sequence.
    """
    mask = recognizer.frame_mask(batch.lengths, encoded.shape[1])
    views = 2 if stage.consistency else 1
    # Both views of an utterance get the same corruption: their outputs are to agree.
    inputs = batch.targets[: len(batch.targets) // views]
    inputs = corrupted(inputs, stage.corruption, log_probs.shape[2] - 1).repeat(views, 1)
    decoded = recognizer.decoder.teacher_forced(encoded, mask, inputs, stage.noise)
    outputs = with_end(batch, log_probs.shape[2] - 1) if recognizer.decoder.ends else batch
    valid = recognizer.frame_mask(outputs.target_lengths, outputs.targets.shape[1])  # (B, U)
    parts = {"attention": symbol_loss(decoded.logits, outputs, valid, stage)}
    if stage.consistency:
        disagreement = divergence(decoded.logits.log_softmax(2), valid)
        parts["consistency"] = disagreement / outputs.target_lengths.sum().clamp(min=1)
    if decoded.energies is None:
        if stage.guide:
            times, aligned = ctc_alignment(log_probs, batch)
            with_time = recognizer.frame_mask(batch.target_lengths, times.shape[1])
            with_time &= aligned.unsqueeze(1)
            parts["guide"] = guide_loss(decoded.weights[:, :-1], times, with_time)
        return parts
    if stage.stop:
        times, aligned = ctc_alignment(log_probs, batch)
        parts["stop"] = stop_loss(decoded.energies, times, aligned, batch, stage.eagerness)
    if stage.quantity:
        mass = (decoded.alpha[:, :-1].sum(2) * valid).sum(1)
        excess = (mass - batch.target_lengths).abs() / batch.target_lengths.clamp(min=1)
        parts["quantity"] = excess.mean()
    return parts


def divergence(log_probs: Tensor, valid: Tensor) -> Tensor:
    """Return the divergence between two views of the same utterances, summed over valid frames.

    Each view learns from the other's detached distribution (cross-entropy in both directions).

    Args:
        log_probs: (2 B, N, V), the second view of an utterance B rows behind its first.
        valid: (2 B, N) false on padding.

    Source: CR-CTC, Yao et al. 2024; for decoders R-Drop, Liang et al. 2021.
    """
    one, other = log_probs.chunk(2)
    both = [
        (target.detach().exp() * (target.detach() - output)).sum(2)
        for target, output in ((one, other), (other, one))
    ]
    return (both[0] + both[1])[valid[: len(one)]].sum()


def with_end(batch: Batch, end: int) -> Batch:
    """Return the batch with the symbol `end` behind every text."""
    longer = nn.functional.pad(batch.targets, (0, 1))
    targets = longer.scatter(1, batch.target_lengths.unsqueeze(1), end)
    return batch._replace(targets=targets, target_lengths=batch.target_lengths + 1)


def symbol_loss(logits: Tensor, batch: Batch, valid: Tensor, stage: Stage) -> Tensor:
    """Return the cross-entropy of the (B, U, V) logits, per symbol.

    Args:
        logits: of each symbol.
        batch: its targets.
        valid: (B, U) true on symbols, false on padding.
        stage: its smoothing.
    """
    if not valid.any():
        return logits.sum() * 0
    targets = batch.targets
    if stage.neighbours:
        targets = localised(targets, batch.target_lengths, logits.shape[2], stage.neighbours)
    return cross_entropy(logits[valid], targets[valid], label_smoothing=stage.smoothing)


def guide_loss(weights: Tensor, times: Tensor, with_time: Tensor) -> Tensor:
    """Return the negative log of the attention near the CTC alignment, in nats, mean over symbols.

    It does for offline attention what `stop_loss` does for monotonic attention. How the attention
    is spread over the frames near a symbol is free.

    Args:
        weights: (B, U, T) attention to each frame.
        times: (B, U) frame of each symbol on the alignment.
        with_time: (B, U) true where there is one.
    """
    if not with_time.any():
        return weights.sum() * 0
    frames = torch.arange(weights.shape[2], device=weights.device)
    near = (frames - times.unsqueeze(2)).abs() <= NEAR
    mass = (weights * near).sum(2)[with_time]
    return -mass.clamp(min=1e-6).log().mean()


def text_loss(recognizer: Recognizer, text: Tensor, lengths: Tensor) -> Tensor:
    """Return the decoder's cross-entropy on text without audio, per symbol.

    The contexts are zero, so the decoder learns a language model of its own, from more text than
    there is speech.

    Args:
        recognizer: whose decoder learns.
        text: (B, U) symbols.
        lengths: (B,) of them.
    """
    with mixed_precision(text.device):
        logits = recognizer.decoder.without_audio(text).float()
    written = recognizer.frame_mask(lengths, text.shape[1])
    return cross_entropy(logits[written], text[written])


def corrupted(targets: Tensor, share: float, symbols: int) -> Tensor:
    """Return the symbols with a share replaced at random, to train for errors in serving.

    Source: unigram noising (Xie et al. 2017), here against exposure bias.
    """
    replaced = torch.rand(targets.shape, device=targets.device) < share
    return targets.where(~replaced, torch.randint_like(targets, symbols))


def stop_loss(
    energies: Tensor, times: Tensor, aligned: Tensor, batch: Batch, eagerness: float = 1.0
) -> Tensor:
    """Return the cross-entropy of the stops along the CTC alignment, per symbol.

    The scan for symbol i begins at the frame of symbol i - 1 and should pass every frame before
    its own, then stop; the scan for one more symbol should run off the end. This is CTC-synchronous
    training (Inaguma & Kawahara 2021) on the probabilities of stopping instead of their expected
    times, which reaches every frame that the scan passes.

    Args:
        energies: (B, U + 1, T) monotonic energies.
        times: (B, U) frame of each symbol.
        aligned: (B,) false where the utterance has no alignment.
        batch: its lengths.
        eagerness: weight of a frame to stop at; above 1 it makes up for a greedy search that
            misses a stop which two frames share, and with it a character for good.
    """
    rows = torch.arange(energies.shape[1], device=energies.device)
    frames = torch.arange(energies.shape[2], device=energies.device)
    ends = (batch.lengths - 1).unsqueeze(1)
    count = batch.target_lengths.unsqueeze(1)
    stops = torch.cat([times, ends], 1).where(rows < count, ends)  # (B, U + 1)
    starts = nn.functional.pad(stops[:, :-1], (1, 0))
    scanned = (frames >= starts.unsqueeze(2)) & (frames <= stops.unsqueeze(2))
    scanned &= ((rows <= count) & aligned.unsqueeze(1)).unsqueeze(2)
    stop = (frames == stops.unsqueeze(2)) & (rows < count).unsqueeze(2)
    loss = binary_cross_entropy_with_logits(
        energies[scanned],
        stop[scanned].to(energies.dtype),
        reduction="sum",
        pos_weight=energies.new_tensor(eagerness),
    )
    return loss / batch.target_lengths.sum().clamp(min=1)


def ctc_alignment(log_probs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the last frame (B, U) of each symbol on the best CTC path, and which rows have one.

    Args:
        log_probs: (B, T, V + 1) of the CTC head, the blank last.
        batch: its targets and lengths.
    """
    device, log_probs, targets = log_probs.device, log_probs.cpu(), batch.targets.cpu()
    times = torch.zeros_like(targets)
    aligned = times.new_ones(len(times), dtype=torch.bool)
    lengths = zip(batch.lengths.tolist(), batch.target_lengths.tolist(), strict=True)
    for b, (length, count) in enumerate(lengths):
        if count == 0:
            continue
        found = last_frames(log_probs[b, :length], targets[b, :count])
        if found is None:
            aligned[b] = False
        else:
            times[b, :count] = found
    return times.to(device), aligned.to(device)
