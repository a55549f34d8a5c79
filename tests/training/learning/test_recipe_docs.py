"""Every key of a recipe is documented."""

from dataclasses import fields
from pathlib import Path

import pytest

from cortado.training.data.augment import Augmentation
from cortado.training.learning.recipe import Corpus, Recipe
from cortado.training.learning.stage import Stage

PAGE = Path(__file__).parents[3] / "docs" / "recipes.md"


@pytest.mark.parametrize(
    ("part", "heading"),
    [(Recipe, "The run"), (Corpus, "Corpora"), (Stage, "Stages"), (Augmentation, "Augmentation")],
)
def test_every_key_is_in_the_table_of_its_part(part: type, heading: str) -> None:
    table = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    keys = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {key for cell in keys for key in cell.replace("`", " ").replace(",", " ").split()}
    assert documented == {field.name for field in fields(part)}
