"""An evaluation as one HTML file that refers to no other: tables, sound and pictures."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cortado.model.progress import Progress
from cortado.model.whole_file import write_whole
from cortado.training.data.recordings import samples_of
from cortado.training.scoring.breakdown import confusions, symbol_matrix, worst
from cortado.training.scoring.comparison import Compared
from cortado.training.scoring.evaluate import Result, SetScore
from cortado.training.scoring.outputs import group_as_json, groups
from cortado.training.scoring.page_media import opus, picture
from cortado.training.scoring.report import WHOLE_SPEAKERS, phrases

if TYPE_CHECKING:  # attention is drawn with torch; a page without pictures does not need it
    from cortado.model.recognizer import Recognizer
    from cortado.training.scoring.attending import Attending

PARTS = files("cortado.training.scoring") / "page_parts"
ROWS = 5_000  # utterances that a page lists, the worst first; a browser bears no more
LONGEST = 60.0  # seconds of an utterance whose sound and attention are shown
INK = (150, 108, 66)  # of the log-mel pictures, on light and on dark paper
LIGHTEST = 0.05  # weights below are not drawn


@dataclass(frozen=True)
class PagePlan:
    """What a page holds besides the figures."""

    worst: int = 30  # utterances of each set with sound and attention
    fields: Sequence[str] = ()  # of the manifest, to group by
    comparisons: Sequence[Compared] = ()


def write_page(
    sets: Sequence[SetScore],
    path: Path,
    recognizer: "Recognizer | None",
    plan: PagePlan,
    progress: Progress,
) -> None:
    """Write the page of some sets.

    Args:
        sets: what was evaluated.
        path: the file.
        recognizer: whose attention is drawn; None where it is not known.
        plan: what it holds.
        progress: called as utterances are drawn.
    """
    content = {
        "sets": [_set(one, recognizer, plan, progress) for one in sets],
        "comparisons": [asdict(one) for one in plan.comparisons],
    }
    # Within a script element nothing may look like markup: an id `<!--<script>` would open one.
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    page = _part("page.html")
    script = "\n".join(_part(name) for name in ("tables.js", "pictures.js", "page.js"))
    for mark, text in (("STYLE", _part("page.css")), ("SCRIPT", script), ("DATA", data)):
        before, after = page.split(f"/*{mark}*/")
        page = before + text + after
    write_whole(path, page)


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def _set(
    one: SetScore, recognizer: "Recognizer | None", plan: PagePlan, progress: Progress
) -> dict[str, Any]:
    symbols, matrix = symbol_matrix(one.results)
    drawn = worst(one.results, plan.worst)
    shown = []
    for k, result in enumerate(drawn):
        progress(f"{one.name}: page", k + 1, len(drawn))
        shown.append(_drawn(result, _adapted_recognizer(one, result, recognizer)))
    listed = one.results if len(one.results) <= ROWS else worst(one.results, ROWS)
    return {
        "name": one.name,
        "system": one.system,
        "mode": one.mode,
        "features": "" if one.speaker_statistics is None else WHOLE_SPEAKERS,
        "drawn": "" if recognizer is None else drawn_otherwise(one, recognizer),
        "unit": one.rules.unit,
        "normalisation": one.rules.normalisation,
        "utterances": len(one.results),
        "hours": one.hours,
        "rtf": one.rtf,
        "score": asdict(one.score) if one.score else None,
        "delay": asdict(one.delay) if one.delay else None,
        "delays": _histogram(one),
        "phrases": f"{phrases(one.phrases)}." if one.phrases else "",
        "unreadable": [str(failure) for failure in one.failures],
        "groups": [
            {"name": name, "rows": [group_as_json(group) for group in part]}
            for name, part in groups(one, plan.fields)
        ],
        "confusions": asdict(confusions(one.results)),
        "symbols": symbols,
        "matrix": matrix,
        "worst": shown,
        "rows": [_row(result) for result in listed],
    }


def drawn_otherwise(one: SetScore, recognizer: "Recognizer") -> str:
    """Return from what the pictures of a set may differ, empty where they show what was scored."""
    mode = "online" if recognizer.decoder.online else "expected"  # of `attend`
    if (one.backend, one.mode) == ("reference", mode):
        return ""
    words = {"reference": f"the {one.mode} search", "server": "a server"}
    return (
        "The pictures are drawn by the reference in PyTorch, greedily; the words come from "
        f"{words.get(one.backend, f'the backend {one.backend}')}, which may differ in places."
    )


def _adapted_recognizer(
    one: SetScore, result: Result, recognizer: "Recognizer | None"
) -> "Recognizer | None":
    """Return the recogniser as it heard an utterance."""
    if recognizer is None or one.speaker_statistics is None:
        return recognizer
    from cortado.model.adaptation import adapted

    return adapted(recognizer, one.speaker_statistics[result.utterance.id])


def _histogram(one: SetScore) -> list[list[int]]:
    """Return [milliseconds, characters] of each delay, rounded to 10 ms."""
    values = np.array([delay for result in one.results for delay in result.delays])
    rounded, counts = np.unique((values * 100).round().astype(int) * 10, return_counts=True)
    return [[int(value), int(count)] for value, count in zip(rounded, counts, strict=True)]


def _row(result: Result) -> dict[str, Any]:
    """Return what the list of all utterances shows of one."""
    delays = result.delays
    return {
        "id": result.utterance.id,
        "speaker": result.utterance.speaker,
        "seconds": round(result.utterance.duration, 2),
        "errors": result.errors.total,
        "length": result.errors.length,
        "delay": round(float(np.median(delays)) * 1000) if delays else None,
        "edits": [[edit.reference, edit.hypothesis] for edit in result.edits],
    }


def _drawn(result: Result, recognizer: "Recognizer | None") -> dict[str, Any]:
    """Return an utterance of the worst, with its sound, and its attention where that is known."""
    row = _row(result)
    if result.utterance.duration > LONGEST:
        return row
    samples = samples_of(result.utterance)
    row["audio"] = opus(samples)
    if recognizer is not None:
        from cortado.training.scoring.attending import attend

        row["attention"] = _attention(attend(recognizer, samples))
    return row


def _attention(found: "Attending") -> dict[str, Any]:
    """Return the log-mel picture, the characters with their stops, and the weights drawn."""
    spans = []
    for k, row in enumerate(found.weights):
        for frame in np.flatnonzero(row >= LIGHTEST).tolist():
            begin, _ = found.times(frame)
            spans.append([k, round(begin, 2), round(float(row[frame]), 2)])
    return {
        "seconds": round(found.duration, 3),
        "picture": picture(found.logmel, INK),
        "characters": [[one.text, one.time] for one in found.characters],
        "spans": spans,
    }
