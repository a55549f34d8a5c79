"""The tables of a study, generated from its stored runs into a Markdown page."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from cortado.model.whole_file import write_whole
from cortado.training.learning import recipe as recipes
from cortado.training.scoring.markdown import line, mean, outside
from cortado.training.studies.claims import claims
from cortado.training.studies.plan import Row, Study, plans, shared
from cortado.training.studies.record import Run, Scored, stored

Value = Callable[[Scored], float]
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
    budget = f"{one.updates} updates of {one.processes} x {one.batch_seconds:g} s"
    missing = [plan.name for plan in plans(study) if not plan.result.exists()]
    left = f"\n- Not run yet: {', '.join(missing)}." if missing else ""
    return (
        f"- Data: {data}; the shares are the recipe's weights.\n"
        f"- Budget: {budget} of padded audio a run, for every row; the last weights' moving "
        "average is what is scored.\n"
        f"- Start: all runs begin with the same encoder and CTC head, `{one.start.recipe}` after "
        f"{one.start.updates:,} updates (weights {one.start.digest}), and with a new decoder.\n"
        "- Monotonic rows (hard monotonic, MoChA, MAtChA) learn their stops along the CTC "
        "alignment and have the quantity loss, with the same weights; soft attention is shown "
        "where to look along the same alignment, and CTC is its head alone. All have the CTC loss "
        "beside their own.\n"
        f"- {_noise(study)}\n"
        "- Additive energies of stops and chunks are normalised (Raffel et al. 2017, eq. 16), that "
        "of soft attention is not (eq. 15).\n"
        "- Rates are in %, mean ± standard deviation over seeds where there are several, with "
        "no language model. Each recording is one utterance: endpoints are off. Of the ways of "
        f"decoding, {'; '.join(EXPLAINED[way] for way in ways)}.{left}"
    )


def _noise(study: Study) -> str:
    """Return which pre-sigmoid noise the monotonic rows are trained with."""
    stages = recipes.read(study.recipe).stages
    each = ", ".join(f"{stage.noise:g} in the stage `{stage.name}`" for stage in stages)
    return f"Standard deviation of the pre-sigmoid noise, 1 in the papers: {each}."


def _rates(
    name: str, rows: Sequence[Row], by_row: dict[str, list[Run]], ways: Sequence[str]
) -> str:
    every = [score for runs in by_row.values() for run in runs for score in run.scores]
    heard = next(score for score in every if score.name == name)
    kinds: dict[str, Value] = {
        "WER": lambda score: score.words.percent,
        "CER": lambda score: score.characters.percent,
    }
    heads = [f"{kind} {WAYS[way]}" for kind in kinds for way in ways]
    lines = []
    for row in rows:
        runs = by_row[row.name]
        cells = [_cell(runs, name, mode, value) for value in kinds.values() for mode in ways]
        lines.append(line(row.title, str(len(runs)), *cells, _delay(runs, name)))
    title = f"**{name}**: {heard.utterances} utterances, {heard.hours:.2f} h, "
    title += f"{heard.words.length:,} words, {heard.characters.length:,} characters"
    header = line("", "seeds", *heads, "emission delay p50 / p90, ms")
    return "\n".join([title, "", header, line(*["---"] * (len(heads) + 3)), *lines])


def _costs(rows: Sequence[Row], by_row: dict[str, list[Run]]) -> str:
    lines = [line("", "parameters", "training time, s"), line("---", "---", "---")]
    for row in rows:
        runs = by_row[row.name]
        seconds = fmean(run.training_seconds for run in runs)
        lines.append(line(row.title, f"{runs[0].parameters:,}", f"{seconds:.0f}"))
    return "\n".join(lines)


def _cell(runs: Sequence[Run], name: str, mode: str, value: Value) -> str:
    return mean([value(score) for run in runs if (score := run.score(name, mode))])


def _delay(runs: Sequence[Run], name: str) -> str:
    delays = [score.delay for run in runs if (score := run.score(name, "online")) and score.delay]
    if not delays:
        return ""
    p50, p90 = fmean(one.p50_ms for one in delays), fmean(one.p90_ms for one in delays)
    return f"{p50:.0f} / {p90:.0f}"
