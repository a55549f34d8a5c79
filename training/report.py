"""Scores of sets as a table for the terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from training.evaluate import SetScore

CAPTION = (
    "Rates with 95 % intervals over speakers. A loop is a hypothesis longer than 1.3 x its "
    "reference. The delay is from the end of a character (CTC alignment of the reference) to the "
    "end of the step that wrote it, look-ahead included: p50 / p90 of the characters heard right. "
    "The real-time factor (RTF) counts features, encoder and decoder, not the decoding "
    "of the file format."
)


def table(sets: Sequence[SetScore]) -> Table:
    """Return a table with a row per set."""
    result = Table(box=box.SIMPLE_HEAD, caption=CAPTION, caption_justify="left")
    result.add_column("set", no_wrap=True)
    for name in (
        "utterances",
        "hours",
        "WER %",
        "CER %",
        "sub",
        "del",
        "ins",
        "loops",
        "delay ms",
        "RTF",
    ):
        result.add_column(name, justify="right")
    for one in sets:
        result.add_row(one.name, str(len(one.results)), f"{one.hours:.2f}", *_cells(one))
    return result


def _cells(one: SetScore) -> list[str]:
    score = one.score
    if score is None:
        return ["-"] * 8
    rates = [
        f"{100 * rate:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        for rate, (low, high) in ((score.wer, score.wer_ci95), (score.cer, score.cer_ci95))
    ]
    counts = (score.substitutions, score.deletions, score.insertions, score.loops)
    delay = f"{one.delay.p50_ms:.0f} / {one.delay.p90_ms:.0f}" if one.delay else "-"
    return [*rates, *map(str, counts), delay, f"{one.rtf:.3f}"]
