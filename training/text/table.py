"""The table of the text tasks, generated from stored runs into a Markdown page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from cortado.model.config_reader import json_tree
from cortado.model.whole_file import write_whole
from cortado.training.scoring.markdown import line, mean, outside
from cortado.training.text.recipe import Row, TextRecipe, configuration

KINDS = {
    "translation": {"bleu": "BLEU"},
    "summary": {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"},
}
Record = Mapping[str, Any]


def write(recipes: Sequence[TextRecipe], results: Path, page: Path) -> Path:
    """Put the table of the recipes' stored runs on a page, in place of the one that is there.

    Raises:
        ValueError: the page has no place for it, or a run is of another recipe than today's.
        OSError: a file that cannot be read or written.
    """
    before, after = outside(page, "text")
    parts = [task(recipe, results) for recipe in recipes]
    write_whole(page, before + "\n" + "\n\n".join(parts) + "\n\n" + after)
    return page


def task(recipe: TextRecipe, results: Path) -> str:
    """Return a task's part of the page.

    Raises:
        ValueError: a run is of another recipe than today's.
    """
    runs = {row.name: _runs(recipe, row, results) for row in recipe.rows}
    one = next((run for found in runs.values() for run in found), None)
    heading = f"**{recipe.title}.**"
    if one is None:
        return f"{heading} No run is stored yet."
    training = recipe.training
    notes = f"{heading} {training.updates:,} updates of {training.batch} pairs a run; "
    notes += f"{one['sentences']:,} test sentences; beam of {recipe.decoder.beam}."
    kinds = KINDS[recipe.task]
    heads = [
        "",
        "seeds",
        *(f"{name}, {way}" for way in ("hard", "expected") for name in kinds.values()),
    ]
    lines = [line(*heads, "perplexity", "parameters"), line(*["---"] * (len(heads) + 2))]
    for row in recipe.rows:
        if not (found := runs[row.name]):
            continue
        cells = [_cell(found, way, kind) for way in ("hard", "expected") for kind in kinds]
        likely = mean([run["perplexity"] for run in found])
        seeds = f"{len(found)} of {len(row.seeds)}"
        lines.append(line(row.title, seeds, *cells, likely, f"{found[0]['parameters']:,}"))
    parts = [notes, "\n".join(lines)]
    if recipe.papers:
        parts.append(f"{recipe.papers} {order(recipe, runs)}" if recipe.order else recipe.papers)
    return "\n\n".join(parts)


def order(recipe: TextRecipe, runs: Mapping[str, Sequence[Record]]) -> str:
    """Return a sentence that says whether the rows' order is the papers', by their first score.

    The score is that of hard stops where a row has them.
    """
    kind, name = next(iter(KINDS[recipe.task].items()))
    missing = [row for row in recipe.order if not runs[row]]
    if missing:
        return f"Whether that order holds here is not known: {', '.join(missing)} was not run."
    titles = {row.name: row.title for row in recipe.rows}
    means = {row: fmean(_served(runs[row], kind)) for row in recipe.order}
    ranked = sorted(means, key=means.__getitem__, reverse=True)
    same = "the same" if ranked == list(recipe.order) else "another"
    listed = ", ".join(f"{titles[row]} {means[row]:.1f}" for row in ranked)
    doubt = (
        " One seed tells no order from chance."
        if any(len(runs[row]) < 2 for row in recipe.order)
        else ""
    )
    return (
        f"The order here is {same}, by {name} with hard stops where there are any: {listed}.{doubt}"
    )


def _served(runs: Sequence[Record], kind: str) -> list[float]:
    return [(run["scores"].get("hard") or run["scores"]["expected"])[kind] for run in runs]


def _runs(recipe: TextRecipe, row: Row, results: Path) -> list[Record]:
    found, wanted = [], configuration(recipe, row)
    for seed in row.seeds:
        path = results / f"{recipe.name}-{row.name}-{seed}.json"
        if not path.exists():
            continue
        run = json_tree(path)
        if run["configuration"] != wanted:
            got = run["configuration"]
            raise ValueError(f"{path}: expected a run of the recipe as it is, {wanted}, got {got}")
        found.append(run)
    return found


def _cell(runs: Sequence[Record], way: str, kind: str) -> str:
    return mean([run["scores"][way][kind] for run in runs if way in run["scores"]])
