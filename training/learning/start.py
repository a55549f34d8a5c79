"""The initial weights and statistics of a run: drawn as a paper has them, or a checkpoint's."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cortado.model import checkpoint
from cortado.model.features.speaker import Sums
from cortado.model.recognizer import Recognizer
from cortado.training.data.log_mel_cache import CachedCorpus
from cortado.training.learning.recipe import PARTS, Initialisation, Part

log = logging.getLogger(__name__)
CONTEXT_FIRST = "decoder.combine.weight"  # of Luong's decoder, on the context and the LSTM's state
STATISTICS_UTTERANCES = 1_000
LEAST_SPREAD = 1e-2  # of a band in which nothing is ever heard, as above 4 kHz by telephone
CUT = 2  # deviations at which a normal distribution is cut off, as TensorFlow does
SYMBOL_PARTS: tuple[Part, ...] = ("ctc", "decoder")  # whose outputs are symbols
SHRUNK: tuple[Part, ...] = ("encoder", "ctc", "phones")  # that `shrink` shrinks


def initialise(model: Recognizer, wanted: Initialisation) -> None:
    """Draw a recogniser's initial weights anew where a recipe says how; biases stay."""
    if wanted.encoder is not None:
        bound = CUT * wanted.encoder
        for weight in model.encoder.parameters():
            if weight.dim() > 1:
                nn.init.trunc_normal_(weight, 0.0, wanted.encoder, -bound, bound)
    if wanted.embedding is not None:
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                nn.init.uniform_(module.weight, -wanted.embedding, wanted.embedding)


def set_statistics(
    model: Recognizer, corpora: Sequence[CachedCorpus], weights: Sequence[float]
) -> None:
    """Set the features' mean and deviations from utterances drawn as in training."""
    rng = np.random.default_rng(0)
    shares = np.array(weights) / sum(weights)
    frames = []
    for corpus in rng.choice(len(shares), STATISTICS_UTTERANCES, p=shares):
        frames.append(corpora[corpus].logmel(int(rng.integers(len(corpora[corpus])))))
    normalizer = model.features.normalizer
    sums = Sums(len(normalizer.mean))
    for utterance in frames:
        sums.add(utterance)
    mean, deviation = sums.statistics()
    normalizer.mean.copy_(torch.from_numpy(mean))
    normalizer.deviation.copy_(torch.from_numpy(deviation))
    if normalizer.spread is not None:
        normalizer.spread.fill_(1)
        normalized = [normalizer(torch.from_numpy(utterance)[None])[0] for utterance in frames]
        normalizer.spread.copy_(torch.cat(normalized).std(0).clamp(min=LEAST_SPREAD))


def begin_from(
    model: Recognizer,
    folder: Path,
    parts: Sequence[Part],
    widen: bool = False,
    shrink: float = 1.0,
) -> None:
    """Copy the weights and statistics of some parts from a checkpoint into a recogniser.

    The head of phones, which not every recogniser has, is taken where both have one.

    Args:
        model: the recogniser.
        folder: of the checkpoint.
        parts: that are taken from it.
        widen: a narrower encoder becomes the first units of this one (`widened`).
        shrink: share of the checkpoint's weights in the encoder and its heads; the rest is of the
            recogniser's own, newly drawn (shrink and perturb, Ash & Adams 2020).

    Raises:
        ValueError: no checkpoint there, or one with other features, another vocabulary or other
            shapes in these parts.
    """
    start = checkpoint.load(folder)
    expected, got = model.config, start.config
    if "features" in parts and got.features != expected.features:
        raise ValueError(
            f"{folder}: expected {expected.features} to start from, got {got.features}"
        )
    of_symbols = " and ".join(part for part in parts if part in SYMBOL_PARTS)
    if of_symbols and got.vocabulary.names != expected.vocabulary.names:
        raise ValueError(
            f"{folder}: expected the vocabulary {expected.vocabulary.names!r} to start from, got "
            f"{got.vocabulary.names!r}; without {of_symbols} in start_parts they are new"
        )
    own, tensors = model.state_dict(), start.state_dict()
    taken = [part for part in parts if part != "phones" or (expected.phones and got.phones)]
    for part in taken:
        given_part = _of(part, tensors)
        if widen:
            given_part = widened(_of(part, own), given_part)
        _check_shapes(part, _of(part, own), given_part, folder)
        if part in SHRUNK:
            weights = [name for name, _ in model.named_parameters() if name in given_part]
            given_part |= {name: own[name].lerp(given_part[name], shrink) for name in weights}
        own |= given_part
    model.load_state_dict(own)
    left = [part for part in PARTS if part not in taken and _of(part, tensors)]
    log.info("%s: begins with its %s", folder, ", ".join(taken))
    if left:
        log.info("%s: leaves out its %s", folder, ", ".join(left))


def widened(new: Mapping[str, Tensor], old: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a wider network that computes what a narrower one does.

    The old units come first. They do not hear the new ones, whose own weights are the wider
    network's initial ones; nor does what reads them, until training has it otherwise (as Net2Net,
    Chen et al. 2016, but without copies of units). Columns for the encoder's outputs are the last
    ones, but in CONTEXT_FIRST, where the state's follow them: as many as there are rows.

    Args:
        new: initial tensors of the wider network.
        old: tensors of the narrower one, which may have shapes of their own along the first two
            axes; the four gates of LSTMs lie one after another on the first.
    """
    found = dict(old)
    for name, tensor in new.items():
        if name not in old or old[name].shape == tensor.shape:
            continue
        grown = tensor.shape[0] != old[name].shape[0]
        gates = 4 if grown and ("weight_" in name or "bias_" in name) else 1
        wide = tensor.clone().unflatten(0, (gates, -1))
        narrow = old[name].unflatten(0, (gates, -1))
        rows = narrow.shape[1]
        if wide.dim() > 2:
            more = wide.shape[2] - narrow.shape[2]
            first = narrow.shape[2] - (rows if name == CONTEXT_FIRST else 0)
            wide[:, :rows, first : first + more] = 0
            wide[:, :rows, :first] = narrow[:, :, :first]
            wide[:, :rows, first + more :] = narrow[:, :, first:]
        else:
            wide[:, :rows] = narrow
        found[name] = wide.flatten(0, 1)
    return found


def freeze(model: nn.Module, frozen: Sequence[str]) -> None:
    """Let the weights whose names begin in one of these ways have no gradients.

    Raises:
        ValueError: no weight's name begins so, or none is left to be trained.
    """
    weights = dict(model.named_parameters())
    for start in frozen:
        chosen = [weight for name, weight in weights.items() if name.startswith(start)]
        if not chosen:
            parts = sorted({".".join(name.split(".")[:2]) for name in weights})
            raise ValueError(
                f"expected a beginning of weights' names, as {', '.join(parts)}, got {start!r}"
            )
        for weight in chosen:
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise ValueError(f"expected weights that are trained, got all frozen by {list(frozen)}")


def _of(part: Part, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def _check_shapes(
    part: Part, model: Mapping[str, Tensor], start: Mapping[str, Tensor], folder: Path
) -> None:
    for name in sorted(model.keys() | start.keys()):
        expected, got = (
            str(tuple(side[name].shape)) if name in side else "none" for side in (model, start)
        )
        if expected != got:
            raise ValueError(
                f"{folder}: expected {name} of shape {expected} to start from, got {got}; "
                f"without {part!r} in start_parts it is new"
            )
