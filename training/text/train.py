"""Training of a text task's rows: one run for each row and seed, which goes on after a stop."""

import json
import logging
import time
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import nn

import cortado.model.compiled.operations  # noqa: F401  # kernels for whole texts on CPUs
from cortado.model.config_reader import json_tree
from cortado.model.lock import LOCK, locked
from cortado.model.progress import Progress, unwatched
from cortado.model.whole_file import write_whole
from cortado.training.learning import snapshot
from cortado.training.learning.device import device_of, to_device
from cortado.training.learning.schedule import cosine
from cortado.training.text import readers
from cortado.training.text.batches import collate, ordered
from cortado.training.text.loss import loss
from cortado.training.text.model import TextModel, Vocabularies
from cortado.training.text.readers import Pair
from cortado.training.text.recipe import Row, TextRecipe, Training, configuration
from cortado.training.text.vocabulary import Words

log = logging.getLogger(__name__)
WEIGHTS, WORDS, RUN = "model.safetensors", "words.json", "run.json"
DIGEST = "configuration"  # a file with the digest of the recipe that began the run
LOG_INTERVAL = 50  # updates


def folder_of(output: Path, row: Row, seed: int) -> Path:
    """Return a run's folder."""
    return output / f"{row.name}-{seed}"


def has_ended(output: Path, row: Row, seed: int) -> bool:
    """Return whether a run has been trained to its end."""
    return (folder_of(output, row, seed) / RUN).exists()


def pairs_of(recipe: TextRecipe, paths: tuple[Path, ...], whole: bool = False) -> list[Pair]:
    """Return a set's pairs, cut as the recipe says; the targets whole where they are to be scored.

    Raises: ValueError, OSError as `readers.read`.
    """
    data = recipe.data
    return readers.read(paths, data.longest_source, None if whole else data.longest_target)


def vocabularies(recipe: TextRecipe, pairs: list[Pair]) -> Vocabularies:
    """Return the words of both sides, by their frequency in the training set."""
    data, sources, targets = recipe.data, (p.source for p in pairs), (p.target for p in pairs)
    if data.shared:
        words = Words.of((text for pair in pairs for text in pair), data.source_words)
        return Vocabularies(words, words)
    return Vocabularies(Words.of(sources, data.source_words), Words.of(targets, data.target_words))


def train(
    recipe: TextRecipe,
    row: Row,
    seed: int,
    output: Path,
    device: str | None = None,
    progress: Progress = unwatched,
) -> Path:
    """Train a run, or go on with it; return its folder, in which its weights and words are.

    Raises:
        ValueError: a set that cannot be read, a device that is not there, or a run that another
            recipe began or that another process trains now.
        OSError: a file that cannot be read or written.
    """
    folder = folder_of(output, row, seed)
    if folder.exists():
        _check(recipe, row, folder)
    if has_ended(output, row, seed):
        return folder
    where = device_of(device)
    write_whole(folder / DIGEST, configuration(recipe, row))
    with locked(folder / LOCK, wait=False):
        _train(recipe, row, seed, folder, where, progress)
    return folder


def _train(
    recipe: TextRecipe, row: Row, seed: int, folder: Path, where: torch.device, progress: Progress
) -> None:
    """Take the updates that are left of a run, and write its weights and words."""
    training = recipe.training
    pairs = pairs_of(recipe, recipe.data.train)
    words = vocabularies(recipe, pairs)
    torch.manual_seed(seed)
    model = TextModel(recipe, row, words).to(where).train()
    optimizer = torch.optim.Adam(model.parameters(), training.learning_rate, eps=1e-6, fused=True)
    parts, optimizers = {"model": model}, {"optimizer": optimizer}
    done, seconds = 0, 0.0
    if found := snapshot.snapshots(folder):
        state = snapshot.restore(found[-1], parts, optimizers)
        done, seconds = state["step"], state["seconds"]
    batches, nats, count = ordered(pairs, training.batch, seed), 0.0, 0
    began = time.monotonic() - seconds  # as if it had not been stopped
    for step, chosen in enumerate(islice(batches, done, training.updates), done + 1):
        torch.manual_seed(hash((seed, step)))  # of noise and dropout: the same after a stop
        batch = to_device(collate(chosen, words, recipe.copies), where)
        optimizer.param_groups[0]["lr"] = rate(training, step)
        optimizer.zero_grad()
        one = loss(model, batch, training)
        (one.total / one.words).backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        nats, count = nats + one.nats.item(), count + one.words
        if step % LOG_INTERVAL == 0:
            spent = time.monotonic() - began
            log.info(
                "%s: update %d, %.3f nats a word, %.0f s", folder.name, step, nats / count, spent
            )
            nats, count = 0.0, 0
        if step % training.interval == 0 and step < training.updates:
            spent = time.monotonic() - began
            snapshot.save(folder, step, parts, optimizers, {"seconds": spent})
        progress(folder.name, step, training.updates)
    weights = save({k: v.cpu().contiguous() for k, v in model.state_dict().items()})
    write_whole(folder / WEIGHTS, weights)
    write_whole(folder / WORDS, json.dumps([one.words for one in words]))
    spent = round(time.monotonic() - began, 1)
    write_whole(folder / RUN, json.dumps({"updates": training.updates, "seconds": spent}))


def rate(training: Training, step: int) -> float:
    """Return the learning rate of an update, counted from 1."""
    return cosine(training.learning_rate, training.final_learning_rate, step / training.updates)


def load(recipe: TextRecipe, row: Row, folder: Path) -> TextModel:
    """Return a run's model, in evaluation mode.

    Raises:
        ValueError: the run is not there or has not ended, or another recipe began it.
    """
    if not (folder / RUN).exists():
        raise ValueError(f"expected a run that has ended in {folder}, got none")
    _check(recipe, row, folder)
    source, target = json_tree(folder / WORDS)
    model = TextModel(recipe, row, Vocabularies(Words(tuple(source)), Words(tuple(target))))
    model.load_state_dict(load_file(folder / WEIGHTS))
    return model.eval()


def _check(recipe: TextRecipe, row: Row, folder: Path) -> None:
    """Raise `ValueError` if another recipe, or the recipe as it was, began a run."""
    wanted, path = configuration(recipe, row), folder / DIGEST
    got = path.read_text(encoding="utf-8") if path.exists() else "none"
    if got != wanted:
        raise ValueError(f"expected a run of the recipe as it is, {wanted}, in {folder}, got {got}")
