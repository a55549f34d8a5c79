"""What the papers say of their recipes (appendices A and D), held against the files."""

from dataclasses import replace
from pathlib import Path

import pytest

from cortado.tests.training.tiny import RECIPES
from cortado.training.data.batches import FRAMES_PER_SECOND
from cortado.training.learning.recipe import Recipe, read

WSJ, TIMIT = (sorted(RECIPES.glob(f"{name}-*.toml")) for name in ("wsj", "timit"))


def rate_cuts(recipe: Recipe) -> list[int]:
    """Return the updates of the whole run at which the rate is cut."""
    first, found = 0, []
    for stage in recipe.stages:
        found += [first + at for at in stage.cuts]
        first += stage.steps
    return found


@pytest.mark.parametrize("path", WSJ, ids=lambda path: path.stem)
def test_a_recipe_of_wsj_is_as_the_papers_have_it(path: Path) -> None:
    recipe = read(path)
    longest = recipe.max_seconds * recipe.batch_utterances  # type: ignore[operator]
    assert recipe.batch_utterances == 8
    assert recipe.batch_seconds * FRAMES_PER_SECOND >= longest * FRAMES_PER_SECOND
    assert (recipe.clip, recipe.l2, recipe.average, recipe.best) == (1.0, 1e-6, 0.0, "wer")
    assert recipe.initialisation.encoder == 0.1
    begin, noisy = recipe.stages
    assert (begin.steps, begin.weight_noise, noisy.weight_noise) == (20_000, 0.0, 0.075)
    assert noisy.weight_noise_on == "recurrent"
    raffel = path.stem not in ("wsj-mocha", "wsj-soft")
    assert recipe.model.encoder.third != raffel
    cuts = [700_000, 1_000_000, 1_300_000] if raffel else [600_000, 800_000, 1_000_000]
    assert rate_cuts(recipe) == cuts


@pytest.mark.parametrize("path", TIMIT, ids=lambda path: path.stem)
def test_a_recipe_of_timit_is_as_the_paper_has_it(path: Path) -> None:
    recipe = read(path)
    assert (recipe.batch_utterances, recipe.clip, recipe.best) == (4, 2.0, "per")
    assert rate_cuts(recipe) == [40_000]
    assert [stage.weight_noise > 0 for stage in recipe.stages] == [False, True]
    assert recipe.stages[0].steps == 2_000
    assert recipe.stages[1].weight_noise_on == "all"


@pytest.mark.parametrize("name", ["wsj-mocha", "wsj-hard-monotonic"])
def test_a_soft_baseline_differs_in_its_attention_alone(name: str) -> None:
    online = read(RECIPES / f"{name}.toml")
    soft = read(RECIPES / f"{name.replace('wsj-mocha', 'wsj')}-soft.toml")
    own = [replace(s, ctc=0.0, stop=0.0, quantity=0.0, noise=0.0) for s in online.stages]
    assert soft.stages == tuple(own)  # what keeps a monotonic attention going apart
    attention = soft.model.decoder.attention
    decoder = replace(online.model.decoder, attention=attention)
    assert attention.kind == "soft"
    assert soft.model == replace(online.model, decoder=decoder)


@pytest.mark.parametrize("path", [*WSJ, *TIMIT], ids=lambda path: path.stem)
def test_a_recipe_begins_with_what_differs_from_its_paper(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.isascii()
    header = " ".join(text.split("\nname = ")[0].replace("#", " ").split())
    assert "silent or its figures were lost" in header or "or where it is silent:" in header
    assert f"runs/{path.stem}/checkpoint" in header
    for said in ("checkpoint", "Weight noise", "updates", "lowest", "initial weights", "decod"):
        assert said.lower() in header.lower()
