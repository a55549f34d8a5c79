import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cortado.model import checkpoint
from cortado.model.config import Confidence, RecognizerConfig
from cortado.model.whole_file import write_tree
from cortado.tests.training.tiny import MODEL, SHIPPED, fresh
from cortado.training.learning.recipe import Recipe, read
from cortado.training.learning.resumption import as_json
from cortado.training.learning.run import train

LEAST = """
name = "a"
validation = ["dev.jsonl"]
corpora = [{ manifest = "../train.jsonl", weight = 1 }]
stages = [{ name = "one", steps = 10 }]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def test_there_is_a_recipe_of_the_shipped_model() -> None:
    assert "small-en" in [path.stem for path in SHIPPED]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_is_sound(path: Path) -> None:
    recipe = read(path)
    assert recipe.name == path.stem
    assert recipe.description
    assert recipe.stages
    assert all(stage.steps > 0 and stage.learning_rate > 0 for stage in recipe.stages)
    assert sum(corpus.weight for corpus in recipe.corpora) == pytest.approx(1)
    assert all("shared" in corpus.manifest.parts for corpus in recipe.corpora)


def test_a_recipe_of_the_least_has_the_paper_s_model(tmp_path: Path) -> None:
    recipe = read(written(tmp_path, LEAST))
    assert isinstance(recipe, Recipe)
    assert recipe.model == RecognizerConfig()
    assert recipe.corpora[0].manifest == tmp_path / "../train.jsonl"
    assert recipe.stages[0].augmentation.tempo == 0.15


def test_what_a_recipe_does_not_say_of_its_model_is_as_in_its_start(tmp_path: Path) -> None:
    decoder = replace(MODEL.decoder, phone_weight=0.3, confidence=Confidence(2.0))
    start = replace(MODEL, decoder=decoder, phones=7)
    checkpoint.save(fresh(start), tmp_path / "start")
    text = 'start = "start"\n' + LEAST
    assert read(written(tmp_path, text)).model == start
    narrower = read(written(tmp_path, text + "[model.decoder.attention]\nchunk = 3\n")).model
    attention = replace(decoder.attention, chunk=3)
    assert narrower == replace(start, decoder=replace(decoder, attention=attention))
    parts = 'start_parts = ["features", "encoder"]\n' + text
    assert read(written(tmp_path, parts)).model == RecognizerConfig(encoder=MODEL.encoder)


def test_a_run_whose_start_has_gone_keeps_the_model_that_it_began_with(tmp_path: Path) -> None:
    start = replace(MODEL, decoder=replace(MODEL.decoder, phone_weight=0.3))
    checkpoint.save(fresh(start), tmp_path / "start")
    path = written(tmp_path, 'start = "start"\n' + LEAST)
    state = tmp_path / "run" / "snapshot-00000001" / "state.json"
    write_tree(state, {"step": 1, "recipe": as_json(read(path))})
    shutil.rmtree(tmp_path / "start")
    assert read(path, tmp_path / "run").model == start
    assert read(path).model == RecognizerConfig()  # of another run, which cannot begin


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LEAST + "bacth_seconds = 3", r"recipe.toml: expected keys among .*, got 'bacth_seconds'"),
        (LEAST.replace("steps", "stesp"), r"stages\[0\]: expected keys among .*, got 'stesp'"),
        (LEAST + "[model.encoder]\nwidht = 3", r"model: encoder: expected .*, got 'widht'"),
        (LEAST.replace('"one"', "1"), r"stages\[0\]: name: expected a valid string, got 1"),
        (LEAST.replace("weight = 1", ""), r"expected TOML|expected a key 'weight', got none"),
        (LEAST + "batch_utterances = 0", r"batch_utterances: expected greater than 0, got 0"),
        (LEAST + "interval = 0", r"interval: expected greater than 0, got 0"),
        (LEAST + "validation_utterances = 0", r"validation_utterances: expected greater than 0"),
        (
            LEAST.replace("10", "1, neighbours = [0.1]"),
            r"neighbours on both sides, got \(0.1,\)",
        ),
        (LEAST.replace("10", "1, neighbours = [0.5, 0.5]"), r"neighbours of less than 1 in all"),
        (
            LEAST.replace("10", "1, states = 1") + "model = { phones = 42 }",
            r"expected model.phones of 43 or more, .* got 42",
        ),
        (
            LEAST + "[model.features]\nenergy = true",
            r"no augmentation of mel bands in stage 'one'.*, got warp, noise, band_masks, silence",
        ),
        (LEAST.replace("weight = 1", "weight = nan"), r"corpora.*weight: expected a finite .* nan"),
        (
            LEAST.replace("steps = ", "steps = -"),
            r"steps: expected greater than or equal to 0, got -",
        ),
        (
            LEAST.replace("10", "1, dropout = 1"),
            r"dropout: expected less than or equal to 0.99, got 1",
        ),
        (
            LEAST.replace("10", "1, smoothing = 10"),
            r"smoothing: expected less than or equal to 1, got 10",
        ),
        (
            LEAST.replace("10", "1, corruption = 1.1"),
            r"corruption: .* less than or equal to 1, got 1.1",
        ),
        (LEAST.replace('"a"', '"../../x"'), r"expected a name of letters"),
        ("shrink = 2\n" + LEAST, r"shrink: expected less than or equal to 1, got 2"),
        ("clip = -1\n" + LEAST, r"clip: expected greater than 0, got -1"),
        ("average = 1.5\n" + LEAST, r"average: expected less than or equal to 1, got 1.5"),
        ("batch_seconds = 0\n" + LEAST, r"batch_seconds: expected greater than 0, got 0"),
        ("speeds = [1, 1e-9]\n" + LEAST, r"speeds\[1\]: expected greater .* to 0.1, got 1e-09"),
        ("seed = -3\n" + LEAST, r"seed: expected greater than or equal to 0, got -3"),
        (LEAST.replace("weight = 1", "weight = 0"), r"a corpus with a weight above 0, got none"),
        (
            LEAST.replace("10", "1, augmentation = { tempo = 1.5 }"),
            r"stages\[0\]: augmentation: tempo: expected less than 1, got 1.5",
        ),
        (
            LEAST.replace("10", "1, augmentation = { band_mask = 300 }"),
            r"expected band_mask of at most \d+, the mel bands, in stage 'one', got 300",
        ),
        ("weight_decay = 0.1\n" + LEAST, r"expected optimizer 'muon', whose .* got 'adam'"),
        (LEAST + "[model.features]\nmels = 10_000_000", r"expected 1 to 256 mel bands"),
        (LEAST + "[model.encoder]\nwidth = 10_000_000", r"expected a width of 1 to 16384"),
        (
            LEAST.replace('[{ name = "one", steps = 10 }]', "[]"),
            r"stages: expected at least one, got none",
        ),
        (
            LEAST.replace('[{ manifest = "../train.jsonl", weight = 1 }]', "[]"),
            r"corpora: expected at least one, got none",
        ),
        (
            LEAST.replace("10", "1, ctc = 0"),
            r"expected one of ctc, .* above 0 in stage 'one', got none",
        ),
        (
            LEAST.replace("10", "1, ctc = 0, attention = 1") + '[model.decoder]\nkind = "ctc"',
            r"expected one of ctc, .*, mmi above 0 in stage 'one', got none",
        ),
        (
            LEAST.replace("10", "1, ctc = 0, stop = 1")
            + '[model.decoder.attention]\nkind = "soft"',
            r"expected one of ctc, .*, attention above 0 in stage 'one', got none",
        ),
        (
            LEAST.replace("10", "1, guide = 1"),
            r"stages\[0\]: expected attention or stop above 0 beside guide, got neither",
        ),
        (
            "initialisation = { encoder = -1 }\n" + LEAST,
            r"encoder: expected greater than 0, got -1",
        ),
        (
            LEAST.replace("10", "1, text = 1") + 'text = "a.txt"\nmodel.decoder.kind = "ctc"',
            r"expected a decoder that reads text, which stage 'one' weighs, got kind 'ctc'",
        ),
        ("name = ", r"recipe.toml: expected TOML, got "),
        ("", r"recipe.toml: expected a key 'name', got none"),
    ],
)
def test_what_is_wrong_with_a_recipe_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "keys"),
    [("widen = true\nshrink = 0.5\n", "widen, shrink"), ('start_parts = ["ctc"]\n', "start_parts")],
)
def test_a_run_does_not_begin_with_parts_of_nothing(tmp_path: Path, text: str, keys: str) -> None:
    recipe = read(written(tmp_path, text + LEAST))  # as of a study, which says with what it begins
    with pytest.raises(ValueError, match=f"expected start, a checkpoint, beside {keys}, got none"):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("parts", "message"),
    [("5", r"start_parts: expected a list, got 5"), ('[["ctc"]]', r"start_parts\[0\]: expected")],
)
def test_parts_of_a_start_that_are_no_names_are_named(
    tmp_path: Path, parts: str, message: str
) -> None:
    checkpoint.save(fresh(), tmp_path / "start")
    text = f'start = "start"\nstart_parts = {parts}\n'
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path, text + LEAST))


def test_validation_sets_are_told_apart(tmp_path: Path) -> None:
    twice = 'validation = ["a/data/dev.jsonl", "b/data/dev.jsonl"]\n'
    lines = [line for line in LEAST.splitlines() if not line.startswith("validation")]
    with pytest.raises(ValueError, match="expected sets of different names, got data/dev twice"):
        read(written(tmp_path, twice + "\n".join(lines)))
