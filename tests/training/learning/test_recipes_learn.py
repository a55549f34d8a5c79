"""The shipped recipes, dry: each one's model takes a step of each of its stages, and decodes."""

from pathlib import Path

import pytest

from cortado.tests.training.tiny import SHIPPED, fresh, takes_steps_and_decodes
from cortado.training.learning.recipe import read


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_stage_of_a_shipped_recipe_takes_a_step(path: Path) -> None:
    recipe = read(path)
    takes_steps_and_decodes(fresh(recipe.model), recipe.stages)
