"""Tables in Markdown, and the part of a page that they are put in the place of."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev


def outside(page: Path, name: str) -> tuple[str, str]:
    """Return what is on a page before and after the part of that name.

    It lies between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises: ValueError where these are not there once; OSError.
    """
    begin, end = (f"<!-- {name}: {side} -->" for side in ("begin", "end"))
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"{page}: expected {begin} and then {end}, once each")
    before, rest = text.split(begin)
    return f"{before}{begin}\n", f"{end}{rest.split(end)[1]}"


def line(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def mean(values: Sequence[float]) -> str:
    """Return the mean of values and, of several, their standard deviation; nothing of none."""
    if not values:
        return ""
    spread = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{spread}"
