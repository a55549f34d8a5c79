"""What `cortado prepare` tells in the terminal: a table of sets, and problems by their kind."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.table import Table

from cortado.training.data.corpora.source import Problem
from cortado.training.data.prepare import Prepared


def summary(problems: Iterable[Problem]) -> dict[str, int]:
    """Return how many problems there are of each kind, most first."""
    kinds = (problem.what.partition(":")[0] for problem in problems)
    named = (kind if kind in ("missing", "doubled") else "unusable" for kind in kinds)
    return dict(Counter(named).most_common())


def table(prepared: Sequence[Prepared]) -> Table:
    """Return a table of the manifests that were written, beside what is published of each."""
    shown = Table("manifest", box=None, pad_edge=False)
    for name in ("utterances", "speakers", "hours"):
        shown.add_column(name, justify="right")
    shown.add_column("published")
    for one in prepared:
        verdict = "-"
        if one.published is not None:
            verdict = "differs" if one.differences() else "the same"
        shown.add_row(
            str(one.manifest),
            f"{one.utterances:,}",
            f"{one.speakers:,}",
            f"{one.hours:.2f}",
            verdict,
        )
    return shown
