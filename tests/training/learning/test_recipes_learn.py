"""The shipped recipes, dry: each one's model takes a step of each of its stages, and decodes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.model.features.framing import FRAMES_PER_STEP
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import decode, modes
from cortado.training.data.batches import Batch, collate
from cortado.training.learning import recipe as recipes
from cortado.training.learning.losses import losses
from cortado.training.learning.recipe import read

SHIPPED = sorted((Path(recipes.__file__).parents[1] / "recipes").glob("*.toml"))


def batch(symbols: int, bands: int) -> Batch:
    random = np.random.default_rng(0)
    frames = [random.normal(-5, 2, (n * FRAMES_PER_STEP, bands)).astype(np.float32) for n in (9, 5)]
    return collate(frames, [[0, 1, 2, symbols - 1], [3]])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_stage_of_a_shipped_recipe_takes_a_step(path: Path) -> None:
    recipe = read(path)
    torch.manual_seed(0)
    model = Recognizer(recipe.model)
    heard = batch(len(recipe.model.vocabulary), recipe.model.features.bands)
    for stage in recipe.stages:
        parts = losses(model, heard, stage)
        assert all(value.isfinite() for value in parts.values())
        model.zero_grad()
        parts["total"].backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert all(grad.isfinite().all() for grad in grads)
        assert any(grad.any() for grad in grads)
    model.eval()
    with torch.no_grad():
        encoded = model.encode_logmel(heard.logmel)
    found = decode(model, encoded, heard.lengths, modes(model)[0])
    assert len(found) == 2
