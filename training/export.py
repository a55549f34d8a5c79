"""A checkpoint for serving: the mean of several checkpoints, with a language model."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cortado.model import checkpoint, checkpoint_reader
from cortado.model.checkpoint_reader import CARD
from cortado.model.config import SEARCHED_BY
from cortado.model.config_reader import flat
from cortado.model.recognizer import Recognizer
from cortado.model.search import source_model
from cortado.model.search.language_file import FILE, language_path, read_language
from cortado.training.learning.start import widened

WIDTH = "encoder.width"
OF_SCORES = ("scores", "mean", "validation")  # of a card, that other weights do not inherit


def export(
    folders: Sequence[Path],
    output: Path,
    shares: Sequence[float] = (),
    lm: str | None = None,
    name: str | None = None,
    bits: checkpoint.Bits = 16,
    stops: tuple[float, float] = (1.0, 0.0),
) -> int:
    """Write a checkpoint that holds all that serving needs; return its bytes.

    Means of the weights of one run, or of runs that began alike, are often better than each of
    them (checkpoint averaging; Izmailov et al. 2018).

    Args:
        folders: checkpoints of one shape, or folders of runs; the encoders of those behind the
            first may be narrower, and count as a part of its encoder (`widened`).
        output: the folder to write; none that is there already, unless it is empty.
        shares: of the checkpoints in the mean, one each; equal if none.
        lm: a language model's file, or a folder that has one; "none"; or None for that of the first
            checkpoint that has one.
        name: what the card calls the recipe; that of the first checkpoint if None.
        bits: of the matrices' numbers.
        stops: factor of the energies by which a monotonic attention stops, and what is added to
            them: it learns beside noise, which a search does not have.

    Raises:
        ValueError: shares that do not fit, checkpoints that differ in more than their weights, or
            energies to change of an attention that has none.
        CheckpointError: one is missing or broken.
        LanguageError: the language model is missing or broken, or of words that it has not.
        FileExistsError: there is something in the folder.
    """
    folders = [_checkpoint(folder) for folder in folders]
    parts = _normalised(shares, len(folders))
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise FileExistsError(f"expected a folder that is new or empty, got {output}")
    recognizer = mean(folders, parts)
    if is_changed := stops != (1, 0):
        change_stops(recognizer, *stops)
    words = _words(folders, recognizer, lm)
    card = checkpoint_reader.read_card(folders[0])["card"]
    if len(folders) > 1 or is_changed:
        card = {key: value for key, value in card.items() if key not in OF_SCORES}
    if len(folders) > 1:
        card["mean"] = _described(folders, parts)
    if is_changed:
        card["stops"] = list(stops)
    checkpoint.save(recognizer, output, card | ({"recipe": name} if name else {}), bits)
    if words:
        shutil.copyfile(words, output / FILE)
    learnt = next(filter(Path.exists, (one / source_model.FILE for one in folders)), None)
    if learnt:
        shutil.copyfile(learnt, output / source_model.FILE)
    return sum(path.stat().st_size for path in output.iterdir())


def mean(folders: Sequence[Path], shares: Sequence[float]) -> Recognizer:
    """Return the recogniser whose numbers are the mean of those of checkpoints.

    Raises: ValueError where they are not of one shape, but for narrower encoders.
    """
    first = checkpoint.load(folders[0])
    wanted = flat(asdict(first.config))
    total: dict[str, Tensor] = {
        key: value.double() * shares[0] for key, value in first.state_dict().items()
    }
    for folder, share in zip(folders[1:], shares[1:], strict=True):
        other = checkpoint.load(folder)
        given, tensors = flat(asdict(other.config)), other.state_dict()
        if given[WIDTH] < wanted[WIDTH]:
            given[WIDTH], tensors = wanted[WIDTH], widened(first.state_dict(), tensors)
        # Of what only searches read, the mean has the first one's.
        compared = (name for name in wanted if name not in SEARCHED_BY)
        name = next((name for name in compared if given[name] != wanted[name]), None)
        if name:
            raise ValueError(
                f"expected checkpoints of one configuration, got {name} {wanted[name]!r} in "
                f"{folders[0]} and {given[name]!r} in {folder}"
            )
        for key, value in tensors.items():
            total[key] += value.double() * share
    kinds = {key: value.dtype for key, value in first.state_dict().items()}
    first.load_state_dict({key: value.to(kinds[key]) for key, value in total.items()})
    return first


def change_stops(recognizer: Recognizer, factor: float, offset: float) -> None:
    """Scale and shift the energies by which a monotonic attention stops.

    Raises: ValueError where there is no such attention, or a number is not finite.
    """
    attention = getattr(recognizer.decoder, "attention", None)
    energy = getattr(attention, "monotonic", None)
    if energy is None:
        kind = type(attention or recognizer.decoder).__name__
        raise ValueError(f"expected a monotonic attention, whose stops can be changed, got {kind}")
    if not (isfinite(factor) and isfinite(offset)):
        raise ValueError(f"expected finite numbers to change stops by, got {factor} and {offset}")
    with torch.no_grad():
        energy.scale.mul_(factor)
        energy.bias.mul_(factor).add_(offset)


def _checkpoint(folder: Path) -> Path:
    """Return a checkpoint's folder, given it or that of its run."""
    inside = folder / "checkpoint"
    return inside if not (folder / CARD).exists() and inside.is_dir() else folder


def _normalised(shares: Sequence[float], count: int) -> list[float]:
    if not shares:
        return [1 / count] * count
    if len(shares) != count:
        raise ValueError(f"expected one --share for each checkpoint ({count}), got {len(shares)}")
    if not all(0 <= share < float("inf") for share in shares) or sum(shares) <= 0:
        raise ValueError(f"expected shares of at least 0, not all of them 0, got {list(shares)}")
    return [share / sum(shares) for share in shares]


def _words(folders: Sequence[Path], recognizer: Recognizer, lm: str | None) -> Path | None:
    """Return the file of the language model that goes with the mean, having read it."""
    found = (language_path(folder, lm) for folder in folders)
    path = next(filter(None, found), None)
    if path:
        read_language(path, recognizer.config.vocabulary)
    return path


def _described(folders: Sequence[Path], shares: Sequence[float]) -> list[dict[str, Any]]:
    found = []
    for folder, share in zip(folders, shares, strict=True):
        card = checkpoint_reader.read_card(folder)["card"]
        origin = {key: card[key] for key in ("recipe", "steps") if key in card}
        found.append({"share": round(share, 4)} | origin)
    return found
