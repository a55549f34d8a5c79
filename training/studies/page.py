"""The tables of a study, generated from its stored runs into a Markdown page."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from cortado.model.whole_file import write_whole
from cortado.training.learning import recipe as recipes
from cortado.training.learning.recipe import Recipe
from cortado.training.scoring.markdown import line, mean, outside
from cortado.training.studies.claims import claims
from cortado.training.studies.plan import Row, Study, plans, shared
from cortado.training.studies.record import RATES, Run, Start, stored

WAYS = {  # of decoding, by mode, in the order of the columns
    "online": "hard, online",
    "uncapped": "hard, algorithm 1",
    "hard-beam": "hard, beam",
    "expected": "expected",
    "beam": "expected, beam",
}
EXPLAINED = {
    "online": "*hard, online* is the streaming path's, greedy, with at most two symbols a frame",
    "uncapped": "*hard, algorithm 1* is the same over whole utterances without that bound (Chiu & "
    "Raffel 2018)",
    "hard-beam": "*hard, beam* is a search with such stops by the decoder's number of hypotheses, "
    "pruned at 3 nats",
    "expected": "*expected* is greedy with the weights of training, over whole utterances",
    "beam": "*expected, beam* is a search with these weights, as wide and pruned as the other",
}

STARTED = {"encoder": "encoder", "ctc": "CTC head", "decoder": "decoder"}  # parts of a recogniser
LOSSES = {  # by their weights in a stage
    "attention": "cross-entropy of the symbols",
    "ctc": "CTC",
    "stop": "stops along the CTC alignment (monotonic attention)",
    "quantity": "quantity (monotonic attention)",
    "guide": "distance from the CTC alignment (soft attention)",
    "consistency": "consistency of two views",
    "text": "text without audio",
    "states": "states of phones",
    "mmi": "sequences of phones",
}


def write(study: Study) -> Path:
    """Put the table on the study's page, in place of the one that is there; return the page.

    Raises: ValueError for stored runs that do not belong together, or a page without its marks;
    OSError.
    """
    before, after = outside(study.page, study.name)
    write_whole(study.page, before + generate(study) + after)
    return study.page


def generate(study: Study) -> str:
    """Return the study's part of the page, in Markdown.

    Raises: ValueError for stored runs that do not belong together.
    """
    runs = stored(plans(study), shared(study))
    if not runs:
        return "\nNo run is stored yet.\n\n"
    by_row = {row.name: [run for run in runs if run.row == row.name] for row in study.rows}
    rows = [row for row in study.rows if by_row[row.name]]
    sets = list(dict.fromkeys(score.name for run in runs for score in run.scores))
    scored = {score.mode for run in runs for score in run.scores}
    ways = [mode for mode in WAYS if mode in scored]
    parts = [_notes(study, runs, ways)]
    for name in sets:
        parts.append(_rates(name, rows, by_row, ways))
    parts += [_costs(rows, by_row), "\n".join(claims(study, by_row, sets))]
    return "\n" + "\n\n".join(parts) + "\n\n"


def _notes(study: Study, runs: Sequence[Run], ways: Sequence[str]) -> str:
    one = runs[0]
    data = ", ".join(f"{c.name} {c.hours:.1f} h ({100 * c.share:.0f} %)" for c in one.corpora)
    recipe = recipes.read(study.recipe)
    budget = f"{one.updates} updates of {one.processes} x {one.batch_seconds:g} s"
    most = recipe.batch_utterances
    bound = f", at most {most} utterances each" if most else ""
    missing = [plan.name for plan in plans(study) if not plan.result.exists()]
    left = f"\n- Not run yet: {', '.join(missing)}." if missing else ""
    return (
        f"- Data: {data}; the shares are the recipe's weights.\n"
        f"- Budget: {budget} of padded audio a run{bound}, for every row. {_weights(recipe)}\n"
        f"- Start: {_start(recipe, one.start)}\n"
        f"- {_losses(study, recipe)}\n"
        f"- {_noise(recipe)}\n"
        "- Additive energies of stops and chunks are normalised (Raffel et al. 2017, eq. 16), that "
        "of soft attention is not (eq. 15).\n"
        f"- Rates are in %{_folded(recipe)}, mean ± standard deviation over seeds where there are "
        "several, with no language model. Each recording is one utterance: endpoints are off. Of "
        f"the ways of decoding, {'; '.join(EXPLAINED[way] for way in ways)}.{left}"
    )


def _weights(recipe: Recipe) -> str:
    """Return which weights of a run are scored."""
    lowest = f"weights with the lowest {recipe.best.upper()} in validation" if recipe.best else ""
    which = lowest or "last weights"
    if recipe.average:
        return f"The moving average of the {which} is scored."
    return f"The {which} are scored."


def _start(recipe: Recipe, start: Start) -> str:
    """Return with what all runs begin."""
    same = [name for part, name in STARTED.items() if part in recipe.start_parts]
    new = [name for name in STARTED.values() if name not in same]
    others = f", and with a new {' and '.join(new)}" if new else ""
    return (
        f"all runs begin with the same {' and '.join(same)}, `{start.recipe}` after "
        f"{start.updates:,} updates (weights {start.digest}){others}."
    )


def _losses(study: Study, recipe: Recipe) -> str:
    """Return which losses the recipe weighs."""
    weighed = [name for key, name in LOSSES.items() if any(getattr(s, key) for s in recipe.stages)]
    ctc = any(row.decoder.kind == "ctc" for row in study.rows)
    alone = " The row of CTC is the CTC head alone." if ctc else ""
    return f"Losses, with the same weights in all rows: {', '.join(weighed)}.{alone}"


def _noise(recipe: Recipe) -> str:
    """Return which pre-sigmoid noise the monotonic rows are trained with."""
    each = [f"{stage.noise:g} in the stage `{stage.name}`" for stage in recipe.stages]
    return f"Standard deviation of the pre-sigmoid noise, 1 in the papers: {', '.join(each)}."


def _folded(recipe: Recipe) -> str:
    """Return what is counted where that is not what the model writes."""
    return " of TIMIT's 61 phones folded to 39" if recipe.model.vocabulary.phones else ""


def _rates(
    name: str, rows: Sequence[Row], by_row: dict[str, list[Run]], ways: Sequence[str]
) -> str:
    every = [score for runs in by_row.values() for run in runs for score in run.scores]
    heard = next(score for score in every if score.name == name)
    heads = [f"{RATES[kind]} {WAYS[way]}" for kind in heard.counts for way in ways]
    lines = []
    for row in rows:
        runs = by_row[row.name]
        cells = [_cell(runs, name, mode, kind) for kind in heard.counts for mode in ways]
        lines.append(line(row.title, str(len(runs)), *cells, _delay(runs, name)))
    title = f"**{name}**: {heard.utterances} utterances, {heard.hours:.2f} h, "
    title += ", ".join(f"{count.length:,} {kind}" for kind, count in heard.counts.items())
    header = line("", "seeds", *heads, "emission delay p50 / p90, ms")
    return "\n".join([title, "", header, line(*["---"] * (len(heads) + 3)), *lines])


def _costs(rows: Sequence[Row], by_row: dict[str, list[Run]]) -> str:
    lines = [line("", "parameters", "training time, s"), line("---", "---", "---")]
    for row in rows:
        runs = by_row[row.name]
        seconds = fmean(run.training_seconds for run in runs)
        lines.append(line(row.title, f"{runs[0].parameters:,}", f"{seconds:.0f}"))
    return "\n".join(lines)


def _cell(runs: Sequence[Run], name: str, mode: str, kind: str) -> str:
    scores = [score for run in runs if (score := run.score(name, mode))]
    return mean([score.counts[kind].percent for score in scores])


def _delay(runs: Sequence[Run], name: str) -> str:
    delays = [score.delay for run in runs if (score := run.score(name, "online")) and score.delay]
    if not delays:
        return ""
    p50, p90 = fmean(one.p50_ms for one in delays), fmean(one.p90_ms for one in delays)
    return f"{p50:.0f} / {p90:.0f}"
