"""Scores of sets as tables for the terminal."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cortado.training.scoring.breakdown import Group, confusions, worst
from cortado.training.scoring.calibration import calibration_error, rated, reliability
from cortado.training.scoring.comparison import Compared
from cortado.training.scoring.edits import Unit
from cortado.training.scoring.error_rates import Interval
from cortado.training.scoring.evaluate import Result, SetScore
from cortado.training.scoring.outputs import groups
from cortado.training.scoring.phrase_score import PhraseScore

CAPTION = (
    "Rates with 95 % intervals over speakers. A loop is a hypothesis longer than 1.3 x its "
    "reference. The delay is from the end of a character (CTC alignment of the reference, or "
    "that of --aligner) to the end of the step that wrote it, look-ahead included: p50 / p90 of "
    "the correct characters. "
    "The real-time factor (RTF) counts features, encoder and decoder, not the decoding "
    "of the file format."
)
WHOLE_SPEAKERS = (
    "Features are normalised by statistics over all that each speaker says in the set: not online."
)
SHOWN = 8  # groups and confusions of each kind; JSON and page have them all
WORST = 3  # utterances with their alignments
NAMES = {"word": "words", "char": "characters", "phone": "phones"}
NOTHING = "·"
BAR = 20  # columns of a share of 1
LINE = 100  # columns of an alignment


def table(sets: Sequence[SetScore]) -> Table:
    """Return a table with a row per set."""
    result = _table("set", caption=_caption(sets))
    rates = rate_names(sets[0].rules.unit if sets else "word")
    columns = ("utterances", "hours", *(f"{name} %" for name in rates))
    for name in (*columns, "sub", "del", "ins", "loops", "delay ms", "RTF"):
        result.add_column(name, justify="right")
    for one in sets:
        result.add_row(one.name, str(len(one.results)), f"{one.hours:.2f}", *_cells(one))
    return result


def rate_names(unit: Unit) -> Sequence[str]:
    """Return which error rates are shown where this unit is counted."""
    return ("PER",) if unit == "phone" else ("WER", "CER")


def _caption(sets: Sequence[SetScore]) -> str:
    """Return what the figures mean, how texts were normalised and what was counted."""
    if not sets:
        return CAPTION
    rules = sets[0].rules
    speakers = f" {WHOLE_SPEAKERS}" if any(one.speaker_statistics for one in sets) else ""
    counted = f"Counts are of {NAMES[rules.unit]}. Normalisation {rules.normalisation}."
    return f"{counted}{speakers} {CAPTION}"


def _table(first: str, caption: str | None = None, title: str | None = None) -> Table:
    result = Table(
        box=box.SIMPLE_HEAD,
        caption=caption,
        caption_justify="left",
        title=title,
        title_justify="left",
        title_style="bold",
    )
    result.add_column(first, no_wrap=True)
    return result


def _cells(one: SetScore) -> list[str]:
    score, shown = one.score, len(rate_names(one.rules.unit))
    if score is None:
        return ["-"] * (shown + 6)
    rates = [_rate(score.wer, score.wer_ci95), _rate(score.cer, score.cer_ci95)][:shown]
    counts = (score.substitutions, score.deletions, score.insertions, score.loops)
    delay = f"{one.delay.p50_ms:.0f} / {one.delay.p90_ms:.0f}" if one.delay else "-"
    return [*rates, *map(str, counts), delay, f"{one.rtf:.3f}"]


def _rate(rate: float, interval: Interval) -> str:
    if interval is None:
        return f"{100 * rate:.1f}"
    low, high = interval
    return f"{100 * rate:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def further(one: SetScore, fields: Sequence[str] = ()) -> Iterator[RenderableType]:
    """Yield a set's groups, most frequent confusions, reliability of words and worst utterances."""
    if not one.results:
        return
    if one.phrases:
        yield f"{one.name}: {phrases(one.phrases)}."
    for name, part in groups(one, fields):
        yield _groups(one, name, part)
    yield _confusions(one)
    if words := rated(one.results) if one.rules.unit == "word" else []:
        yield _reliability(one, words)
    for result in worst(one.results, WORST):
        yield alignment(result)


def _groups(one: SetScore, name: str, part: Sequence[Group]) -> Table:
    shown = part if name not in ("speaker", "id") else part[:SHOWN]
    rest = f", the worst {len(shown)} of {len(part)}" if len(shown) < len(part) else ""
    result = _table(name, title=f"{one.name} by {name}{rest}")
    for column in ("utterances", NAMES[one.rules.unit], "rate %", "sub", "del", "ins"):
        result.add_column(column, justify="right")
    for group in shown:
        errors = group.errors
        counts = (errors.substitutions, errors.deletions, errors.insertions)
        rate = _rate(group.rate, group.ci95)
        result.add_row(
            group.name, str(group.utterances), str(errors.length), rate, *map(str, counts)
        )
    return result


def _confusions(one: SetScore) -> Table:
    found = confusions(one.results, SHOWN)
    title = f"{one.name}: {NAMES[one.rules.unit]} most often wrong"
    result = _table("reference → hypothesis", title=title)
    for column in ("deleted", "inserted"):
        result.add_column(column, no_wrap=True)
    substituted = [
        f"{count} x {_shown(reference)} → {_shown(hypothesis)}"
        for reference, hypothesis, count in found.substituted
    ]
    deleted, inserted = (
        [f"{count} x {_shown(token)}" for token, count in part]
        for part in (found.deleted, found.inserted)
    )
    for cells in zip_longest(substituted, deleted, inserted, fillvalue=""):
        result.add_row(*cells)
    return result


def _reliability(one: SetScore, words: Sequence[tuple[float, bool]]) -> Table:
    """Return the share of correct words by their confidence, with a bar."""
    bins = reliability(words)
    error = 100 * calibration_error(bins)
    result = _table("confidence %", title=f"{one.name}: calibration error of words {error:.1f} %")
    for column in ("words", "mean %", "correct %"):
        result.add_column(column, justify="right")
    result.add_column("")
    for each in bins:
        rates = (f"{100 * each.confidence:.1f}", f"{100 * each.correct:.1f}")
        bounds = f"{100 * each.low:.0f}-{100 * each.high:.0f}"
        result.add_row(bounds, str(each.words), *rates, "█" * round(BAR * each.correct))
    return result


def _shown(token: str) -> str:
    return "␣" if token == " " else token


def alignment(result: Result) -> Text:
    """Return the reference above the hypothesis, token above token."""
    errors = result.errors
    text = Text(f"{result.utterance.id}: {errors.total} errors in {errors.length}\n", "bold")
    reference, hypothesis = Text("  ref  "), Text("  hyp  ")
    gap = "" if result.unit == "char" else " "
    for edit in result.edits:
        width = max(len(edit.reference or NOTHING), len(edit.hypothesis or NOTHING))
        if len(reference) + width > LINE:
            text.append_text(reference).append("\n").append_text(hypothesis).append("\n")
            reference, hypothesis = Text("       "), Text("       ")
        style = "" if edit.kind == "ok" else "bold"
        reference.append(_cell(edit.reference, width) + gap, style)
        hypothesis.append(_cell(edit.hypothesis, width) + gap, style)
    return text.append_text(reference).append("\n").append_text(hypothesis).append("\n")


def _cell(token: str | None, width: int) -> str:
    return (NOTHING * width if token is None else _shown(token)).ljust(width)


def phrases(score: PhraseScore) -> str:
    """Return in words how phrases were recognised."""
    wrong = f"{score.wrong} of {score.said} phrases wrong ({100 * score.wrong_rate:.1f} %)"
    others = f"{100 * score.other_rate:.1f} % of the other words"
    return f"{wrong}, {others}; {score.invented} phrases written that were not said"


def comparison(one: Compared) -> str:
    """Return in a sentence how a set differs from another run's."""
    verdict = ": one utterance does not tell whether that is significant"
    if one.ci95:
        low, high = (100 * bound for bound in one.ci95)
        found = "significant" if one.significant else "not significant"
        verdict = f" [{low:+.2f}, {high:+.2f}]: {found} at 5 %"
    return (
        f"{one.name}: {100 * one.rate:.2f} % against {100 * one.other_rate:.2f} % of "
        f"{one.other} on {one.utterances} utterances: {100 * one.difference:+.2f} points"
        f"{verdict}."
        + (f" {one.other}: {phrases(one.other_phrases)}." if one.other_phrases else "")
    )
