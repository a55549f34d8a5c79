"""The shipped recipes, dry: each model, made narrow, takes a step of each stage and decodes."""

from pathlib import Path

import pytest

from cortado.tests.training.tiny import SHIPPED, fresh, narrow, takes_steps_and_decodes
from cortado.training.learning.recipe import read


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_stage_of_a_shipped_recipe_takes_a_step(path: Path) -> None:
    recipe = read(path)
    takes_steps_and_decodes(fresh(narrow(recipe.model)), recipe.stages)
