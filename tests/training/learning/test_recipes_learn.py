"""The shipped recipes, dry: each one's model takes a step of each of its stages, and decodes."""

from pathlib import Path

import pytest
import torch

from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import decode, modes
from cortado.tests.training.tiny import noise_batch
from cortado.training.learning import recipe as recipes
from cortado.training.learning.losses import losses
from cortado.training.learning.recipe import read

SHIPPED = sorted((Path(recipes.__file__).parents[1] / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_stage_of_a_shipped_recipe_takes_a_step(path: Path) -> None:
    recipe = read(path)
    torch.manual_seed(0)
    model = Recognizer(recipe.model)
    last, bands = len(recipe.model.vocabulary) - 1, recipe.model.features.bands
    heard = noise_batch([[0, 1, 2, last], [3]], (9, 5), bands)
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
    for mode in modes(model):
        if mode != "sampled":
            assert len(decode(model, encoded, heard.lengths, mode)) == 2
