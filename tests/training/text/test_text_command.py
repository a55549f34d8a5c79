"""`cortado text`: from a recipe to the table, on a miniature; and what it refuses."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from cortado.clients import cli
from cortado.model.lock import LOCK
from cortado.tests.model.locking import another_process_holding
from cortado.tests.training.recorded import write_rows
from cortado.tests.training.tiny import RECIPES
from cortado.training.text import recipe as recipes
from cortado.training.text.evaluate import evaluate, score
from cortado.training.text.table import order
from cortado.training.text.train import train

SHIPPED = sorted((RECIPES / "text").glob("*.toml"))
MINIATURE = """
name = "mini"
title = "Miniature"
task = "{task}"
papers = "The paper's figures."
order = ["mocha", "soft"]
copies = {copies}
pictures = [0]

[data]
train = ["train.jsonl"]
dev = ["test.jsonl"]
test = ["test.jsonl"]
source_words = 8
target_words = 8
shared = true
longest_target = 6

[encoder]
embedding = 8
width = 8
bidirectional = true

[decoder]
width = 8
embedding = 8
beam = 2

[training]
updates = {updates}
batch = 2
interval = 2

[[rows]]
name = "soft"
title = "soft attention"
seeds = [1, 2]
attention = {{ kind = "soft", width = 8 }}

[[rows]]
name = "mocha"
title = "MoChA"
attention = {{ kind = "mocha", width = 8 }}
"""
PAGE = "before\n<!-- text: begin -->\nold\n<!-- text: end -->\nafter\n"
Capture = pytest.CaptureFixture[str]


def miniature(folder: Path, task: str, copies: bool, updates: int = 4) -> Path:
    """Write a recipe and its data; return the recipe."""
    rows = [{"source": f"a {word} cat", "target": f"{word} cat"} for word in ("big", "red", "shy")]
    for name in ("train", "test"):
        write_rows(folder / f"{name}.jsonl", rows)
    path = folder / "mini.toml"
    path.write_text(MINIATURE.format(task=task, copies=str(copies).lower(), updates=updates))
    return path


@pytest.mark.parametrize(("task", "copies"), [("translation", False), ("summary", True)])
def test_a_recipe_is_trained_scored_and_listed(
    tmp_path: Path, capsys: Capture, task: str, copies: bool
) -> None:
    recipe, runs, results = miniature(tmp_path, task, copies), tmp_path / "runs", tmp_path / "out"
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert cli.main(["text", "train", str(recipe), "-o", str(runs)]) == 0
    assert {path.name for path in runs.iterdir()} == {"soft-1", "soft-2", "mocha-1"}
    evaluate = ["text", "evaluate", str(recipe), "-o", str(runs), "--results", str(results)]
    assert cli.main(evaluate) == 0
    record = json.loads((results / "mini-mocha-1.json").read_text())
    assert record["updates"] == 4
    assert set(record["scores"]) == {"hard", "expected"}
    kinds = {"bleu", "length"} if task == "translation" else {"rouge1", "rouge2", "rougeL"}
    assert set(record["scores"]["hard"]) == kinds
    pictures = {path.name for path in (results / "alignments").iterdir()}
    assert pictures == {"mini-soft-1.svg", "mini-mocha-1.svg"}
    (results / "mini-soft-2.json").unlink()
    table = ["text", "table", str(recipe), "--results", str(results), "--page", str(page)]
    assert cli.main(table) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- text: begin -->\n")
    assert text.endswith("\n<!-- text: end -->\nafter\n")
    assert "| soft attention | 1 of 2 |" in text
    assert "The paper's figures. The order here is " in text
    assert "old" not in text
    capsys.readouterr()
    miniature(tmp_path, task, copies, 5)
    for command in (["text", "train", str(recipe), "-o", str(runs)], evaluate, table):
        assert cli.main(command) == 2
        assert "expected a run of the recipe as it is" in capsys.readouterr().err


def test_a_run_is_not_trained_twice_at_once(tmp_path: Path) -> None:
    recipe = recipes.read(miniature(tmp_path, "translation", False))
    folder = train(recipe, recipe.rows[0], 1, tmp_path)
    (folder / "run.json").unlink()
    with (
        another_process_holding(folder / LOCK),
        pytest.raises(ValueError, match=r"no other process in .*soft-1, got one"),
    ):
        train(recipe, recipe.rows[0], 1, tmp_path)


def test_targets_are_scored_whole(tmp_path: Path) -> None:
    recipe, scores = recipes.read(miniature(tmp_path, "translation", False)), []
    row = next(row for row in recipe.rows if row.name == "soft")
    train(recipe, row, 1, tmp_path)
    for more in ("", " and a dog"):
        pair = {"source": "a big cat", "target": f"big cat and a red cat{more}"}
        write_rows(tmp_path / "test.jsonl", [pair])
        path = evaluate(recipe, row, 1, tmp_path, tmp_path / "out")
        scores.append(json.loads(path.read_text()))
    short, long = scores
    assert long["perplexity"] != short["perplexity"]
    lengths = [one["scores"]["expected"]["length"] for one in scores]
    assert lengths[0] / lengths[1] == pytest.approx(9 / 6, rel=0.01)


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    recipe = miniature(tmp_path, "translation", False)
    command = ["text", "train", str(recipe), "--row", "mocha", "-o"]
    assert cli.main([*command, str(tmp_path / "whole")]) == 0
    assert cli.main([*command, str(tmp_path / "parts")]) == 0
    whole, parts = (tmp_path / name / "mocha-1" for name in ("whole", "parts"))
    for name in ("run.json", "model.safetensors"):
        (parts / name).unlink()
    assert (parts / "snapshot-00000002").is_dir()
    assert cli.main([*command, str(tmp_path / "parts")]) == 0
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_recipes_that_ship_are_recipes(path: Path) -> None:
    recipe = recipes.read(path)
    assert recipe.name == path.stem
    assert {row.attention.kind for row in recipe.rows} >= {"soft", "monotonic"}


CORPORA = {  # the papers' own, in miniature: each set's files, and what is in them
    "iwslt-en-vi": {"train.en": "The cat sat\nA dog\n", "train.vi": "Con mèo ngồi\nMột con chó\n"},
    "gigaword": {
        "train.article.txt": "the cat sat on #.# mats\n<unk> barks at night\n",
        "train.title.txt": "cat sits\ndog barks\n",
    },
    "cnn-dailymail": {
        "1.story": "A cat sat\n\n@highlight\n\nCat sits",
        "2.story": "A dog barks\n\n@highlight\n\nDog",
    },
}


@pytest.mark.parametrize("name", CORPORA)
def test_a_paper_s_recipe_runs_on_a_miniature_of_its_corpus(tmp_path: Path, name: str) -> None:
    for file, text in CORPORA[name].items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    found = recipes.read(RECIPES / "text" / f"{name}.toml")
    files = tuple(tmp_path / file for file in CORPORA[name])
    parts = (tmp_path,) if name == "cnn-dailymail" else files
    plan = replace(
        found,
        data=replace(found.data, train=parts, dev=parts, test=parts),
        encoder=replace(found.encoder, embedding=6, width=6),
        decoder=replace(found.decoder, embedding=6, width=6),
        training=replace(found.training, updates=3),
    )
    for row in plan.rows:
        train(plan, row, 1, tmp_path / "runs")
        record = json.loads(evaluate(plan, row, 1, tmp_path / "runs", tmp_path).read_text())
        assert record["sentences"] == 2
        assert ("hard" in record["scores"]) == (row.name != "soft")


def test_rows_of_the_recipes_differ_in_their_attention_alone() -> None:
    assert len(SHIPPED) >= 6
    for path in SHIPPED:
        rows = tomllib.loads(path.read_text())["rows"]
        assert all(set(row) <= {"name", "title", "seeds", "attention"} for row in rows)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("shared = true", "shared = false", "one shared vocabulary of both texts to copy"),
        ("batch = 2", "batch = 2\nsampled = 3", "expected copies or a sampled softmax, got both"),
        ('name = "mocha"', 'name = "soft"', "rows of different names, got soft, soft"),
        ("updates = 4", "updates = 0", "training: updates: expected greater than 0, got 0"),
        ("interval = 2", "interval = 0", "training: interval: expected greater than 0, got 0"),
        ("interval = 2", "clip = -1", "training: clip: expected greater than 0, got -1"),
        ("bidirectional = true", "layers = 0", "encoder: layers: expected greater than 0, got 0"),
        ("seeds = [1, 2]", "seeds = []", r"rows\[0\]: seeds: expected at least one, got none"),
        ("[decoder]", '[decoder]\nkind = "ctc"', "kind 'bahdanau' or 'luong', got 'ctc'"),
        ('kind = "mocha"', 'score = "general"', "kind 'luong' with the general energy"),
        ('order = ["mocha"', 'order = ["mohca"', "an order of soft, mocha, got 'mohca'"),
        ("beam = 2", "beams = 2", "got 'beams'"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = miniature(tmp_path, "summary", True)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=message):
        recipes.read(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "--row", "hard"), "expected a row among soft, mocha, got 'hard'"),
        (("train", "--seed", "7"), "expected a seed among 1, 2, got 7"),
        (("evaluate",), "expected runs that have ended in"),
    ],
)
def test_what_is_not_there_is_one_line(
    tmp_path: Path, capsys: Capture, arguments: tuple[str, ...], message: str
) -> None:
    recipe = miniature(tmp_path, "summary", True)
    command, *options = arguments
    words = ["text", command, str(recipe), "-o", str(tmp_path / "runs"), *options]
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err


def test_the_page_says_whether_the_papers_order_holds(tmp_path: Path) -> None:
    found = recipes.read(miniature(tmp_path, "summary", True))
    by_row = {"mocha": [30.0, 31.0], "soft": [29.0, 29.5]}
    runs = {
        row: [{"scores": {"hard": {"rouge1": one}}} for one in values]
        for row, values in by_row.items()
    }
    means = "MoChA 30.5, soft attention 29.2."
    assert order(found, runs).startswith("The order here is the same, by ROUGE-1 ")
    assert order(found, runs).endswith(means)
    turned = order(replace(found, order=("soft", "mocha")), runs)
    assert turned.startswith("The order here is another, ")
    one = order(found, {**runs, "soft": runs["soft"][:1]})
    assert one.endswith("One seed tells no order from chance.")
    assert order(found, {**runs, "matcha": []}).endswith(means)  # a row that is in no order
    assert order(found, {**runs, "soft": []}) == (
        "Whether that order holds here is not known: soft was not run."
    )


def test_scores_are_those_of_the_libraries_in_percent() -> None:
    texts, targets = ["a red cat sat down", "x"], ["a red cat sat down", "y"]
    assert score("translation", texts, targets)["length"] == 1.0
    assert score("translation", texts[:1], targets[:1])["bleu"] == 100.0
    assert score("summary", texts, targets) == {"rouge1": 50.0, "rouge2": 50.0, "rougeL": 50.0}
