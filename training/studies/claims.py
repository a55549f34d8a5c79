"""The papers' claims about monotonic attention, checked against stored runs."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev

from cortado.training.learning import recipe as recipes
from cortado.training.scoring.student import student
from cortado.training.studies.plan import Study
from cortado.training.studies.record import Run

# Hard and expected decoding of one kind, in words.
GREEDY = ("uncapped", "expected", "greedy")
CAPPED = ("online", "expected", "greedy, hard stops with at most two symbols a frame")
BEAM = ("hard-beam", "beam", "beam")
POINT = 1.0  # that hard decoding may lose against expected decoding, in % of the words or phones
NOISE = (
    "pre-sigmoid noise, the papers' means of making expected alignments hard "
    "(Raffel et al. 2017, section 2.5). So they do not answer the question for the papers' method."
)


def claims(study: Study, by_row: Mapping[str, Sequence[Run]], sets: Sequence[str]) -> Iterator[str]:
    """Yield the claims, each with what was measured on each set.

    Args:
        study: which rows are held against each other.
        by_row: the runs of each row.
        sets: their names.
    """
    titles = {row.name: row.title for row in study.rows}
    found = {score.mode for runs in by_row.values() for run in runs for score in run.scores}
    recipe = recipes.read(study.recipe)
    rate = "PER" if recipe.model.vocabulary.phones else "WER"
    kinds = [GREEDY if "uncapped" in found else CAPPED, *([BEAM] if "hard-beam" in found else [])]
    names = f"{titles[study.online]} online against {titles[study.offline]}"
    yield f"**Does the online row match the offline one?** {rate}, {names}:"
    yield ""
    for name in sets:
        for hard, expected, kind in kinds:
            online = _rates(by_row[study.online], name, hard)
            offline = _rates(by_row[study.offline], name, expected)
            yield f"- {name}, {kind}: {_matching(online, offline)}"
    yield ""
    yield f"**Does hard decoding lose at most one point against expected decoding?** {rate}:"
    yield ""
    trained = [stage for stage in recipe.stages if stage.attention]
    if any(stage.noise < 1 for stage in trained):
        some = any(stage.noise for stage in trained)
        yield f"These runs had {'less than the papers have of the' if some else 'no'} {NOISE}"
        yield ""
    for name in sets:
        for hard, expected, kind in kinds:
            losses = _differences(titles, by_row, name, hard, expected)
            yield f"- {name}, {kind}: {_losing(losses)}"
    if "uncapped" in found:
        yield ""
        asked = "What does the bound of streams, two symbols a frame, change?"
        yield f"**{asked}** {rate}, greedy, hard:"
        yield ""
        for name in sets:
            change = _differences(titles, by_row, name, "online", "uncapped")
            yield f"- {name}: with the bound less without it, in points: {_listed(change)}."


def _rates(runs: Sequence[Run], name: str, mode: str) -> list[float]:
    return [score.main.percent for run in runs if (score := run.score(name, mode))]


def _matching(ours: Sequence[float], theirs: Sequence[float]) -> str:
    if len(ours) < 2 or len(theirs) < 2:
        return f"not known: {len(ours)} and {len(theirs)} runs, two of each are the least."
    difference = fmean(ours) - fmean(theirs)
    error = sqrt(stdev(ours) ** 2 / len(ours) + stdev(theirs) ** 2 / len(theirs))
    fewest = min(len(ours), len(theirs))  # the other's deviation may be far smaller
    most = student(fewest)  # standard errors that may be no difference
    if abs(difference) <= most * error:
        verdict = "they are not told apart"
    else:
        verdict = "it is worse" if difference > 0 else "it is better"
    return (
        f"{verdict}. {_percent(fmean(ours))} against {_percent(fmean(theirs))}, best "
        f"{_percent(min(ours))} against {_percent(min(theirs))}; the difference of the means is "
        f"{difference:+.1f} points, its standard error {error:.1f} (with so few seeds "
        f"up to {most:.1f} of them count as none)."
    )


def _differences(
    titles: Mapping[str, str], by_row: Mapping[str, Sequence[Run]], name: str, one: str, other: str
) -> dict[str, float]:
    """Return the mean rate in one mode less that in another, in points, by the row's title."""
    found = {}
    for row, runs in by_row.items():
        ours, theirs = _rates(runs, name, one), _rates(runs, name, other)
        if ours and theirs:
            found[titles[row]] = fmean(ours) - fmean(theirs)
    return found


def _losing(losses: Mapping[str, float]) -> str:
    if not losses:
        return "not known: no row has both."
    over = [title for title, loss in losses.items() if loss > POINT]
    verdict = f"no ({'; '.join(over)})" if over else "yes"
    return f"{verdict}. Hard less expected, in points: {_listed(losses)}."


def _listed(differences: Mapping[str, float]) -> str:
    return "; ".join(f"{title} {one:+.1f}" for title, one in differences.items())


def _percent(rate: float) -> str:
    return f"{rate:.1f} %"
