"""The papers' claims about monotonic attention, checked against stored runs."""

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev

from cortado.training.studies.plan import Study
from cortado.training.studies.record import Run

POINT = 1.0  # that hard decoding may lose against expected decoding, in % of the words
ERRORS = 2.0  # standard errors that a difference of means may have and still be none


def claims(study: Study, by_row: Mapping[str, Sequence[Run]], sets: Sequence[str]) -> Iterator[str]:
    """Yield the claims, each with what was measured on each set.

    Args:
        study: which rows are held against each other.
        by_row: the runs of each row.
        sets: their names.
    """
    titles = {row.name: row.title for row in study.rows}
    names = f"{titles[study.online]} online against {titles[study.offline]}"
    yield f"**Does the online row match the offline one?** WER, {names}:"
    yield ""
    for name in sets:
        yield f"- {name}: {_matching(by_row[study.online], by_row[study.offline], name)}"
    yield ""
    yield "**Does hard decoding lose at most one point against expected decoding?** WER:"
    yield ""
    for name in sets:
        yield f"- {name}: {_losing(titles, by_row, name)}"


def _rates(runs: Sequence[Run], name: str, mode: str) -> list[float]:
    return [score.words.percent for run in runs if (score := run.score(name, mode))]


def _matching(online: Sequence[Run], offline: Sequence[Run], name: str) -> str:
    ours, theirs = _rates(online, name, "online"), _rates(offline, name, "expected")
    if len(ours) < 2 or len(theirs) < 2:
        return f"not known: {len(ours)} and {len(theirs)} runs, two of each are the least."
    difference = fmean(ours) - fmean(theirs)
    error = sqrt(stdev(ours) ** 2 / len(ours) + stdev(theirs) ** 2 / len(theirs))
    if abs(difference) <= ERRORS * error:
        verdict = "it matches"
    else:
        verdict = "it is worse" if difference > 0 else "it is better"
    return (
        f"{verdict}. {_percent(fmean(ours))} against {_percent(fmean(theirs))}, best "
        f"{_percent(min(ours))} against {_percent(min(theirs))}; the difference of the means is "
        f"{difference:+.1f} points, its standard error {error:.1f} (up to {ERRORS:g} of them count "
        "as none)."
    )


def _losing(titles: Mapping[str, str], by_row: Mapping[str, Sequence[Run]], name: str) -> str:
    losses = {}
    for row, runs in by_row.items():
        hard, soft = _rates(runs, name, "online"), _rates(runs, name, "expected")
        if hard and soft:
            losses[titles[row]] = fmean(hard) - fmean(soft)
    if not losses:
        return "not known: no row has both."
    over = [title for title, loss in losses.items() if loss > POINT]
    verdict = f"no ({'; '.join(over)})" if over else "yes"
    listed = "; ".join(f"{title} {loss:+.1f}" for title, loss in losses.items())
    return f"{verdict}. Hard less expected, in points: {listed}."


def _percent(rate: float) -> str:
    return f"{rate:.1f} %"
