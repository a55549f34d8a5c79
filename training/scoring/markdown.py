"""Tables in Markdown, and the part of a page that they are put in the place of."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev


def outside(page: Path, name: str) -> tuple[str, str]:
    """Return what is on a page before and after the part of that name.

    It lies between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`. They are all of a
    page that is not there yet.

    Raises: ValueError where these are not there once, or the page's folder is not; OSError.
    """
    begin, end = (f"<!-- {name}: {side} -->" for side in ("begin", "end"))
    if not page.parent.is_dir():
        raise ValueError(f"expected a page in a folder that exists, got {page}")
    text = page.read_text(encoding="utf-8") if page.exists() else f"{begin}\n{end}\n"
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
