"""The initial weights of a run from a checkpoint, or from parts of one."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor, nn

from cortado.model import checkpoint
from cortado.model.recognizer import Recognizer
from cortado.training.learning.recipe import Part

SPELT: tuple[Part, ...] = ("ctc", "decoder")  # whose outputs are symbols of the vocabulary


def begin_from(model: Recognizer, folder: Path, parts: Sequence[Part]) -> None:
    """Give parts of a recogniser the weights and statistics that they have in a checkpoint.

    Raises:
        ValueError: no checkpoint there, or one whose part hears other features, writes another
            vocabulary or has another shape.
    """
    start = checkpoint.load(folder)
    wanted, given = model.config, start.config
    if "features" in parts and given.features != wanted.features:
        raise ValueError(
            f"{folder}: expected {wanted.features} to start from, got {given.features}"
        )
    spelt = [part for part in parts if part in SPELT]
    if spelt and given.vocabulary.names != wanted.vocabulary.names:
        raise ValueError(
            f"{folder}: expected the vocabulary {wanted.vocabulary.names!r} to start from, got "
            f"{given.vocabulary.names!r}; without {' and '.join(spelt)} in start_parts they are new"
        )
    own, tensors = model.state_dict(), start.state_dict()
    for part in parts:
        _check_shapes(part, _of(part, own), _of(part, tensors), folder)
        own |= _of(part, tensors)
    model.load_state_dict(own)


def freeze(model: nn.Module, frozen: Sequence[str]) -> None:
    """Let the weights whose names begin in one of these ways have no gradients.

    Raises:
        ValueError: no weight's name begins so.
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


def _of(part: Part, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def _check_shapes(
    part: Part, wanted: Mapping[str, Tensor], given: Mapping[str, Tensor], folder: Path
) -> None:
    for name in sorted(wanted.keys() | given.keys()):
        expected, got = (
            str(tuple(side[name].shape)) if name in side else "none" for side in (wanted, given)
        )
        if expected != got:
            raise ValueError(
                f"{folder}: expected {name} of shape {expected} to start from, got {got}; "
                f"without {part!r} in start_parts it is new"
            )
