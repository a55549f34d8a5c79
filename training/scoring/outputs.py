"""Evaluations as files: JSON, and the formats of NIST's sclite."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from cortado.model.captions import words_of
from cortado.model.emission import Character
from cortado.model.whole_file import write_tree, write_whole
from cortado.training.scoring.breakdown import (
    Group,
    by_field,
    by_length,
    by_speaker,
    confusions,
)
from cortado.training.scoring.calibration import rated, reliability
from cortado.training.scoring.evaluate import Result, SetScore

RATES = ("wer", "cer", "wer_ci95", "cer_ci95")  # where phones are counted "per", "per_ci95"
COUNTS = ("substitutions", "deletions", "insertions", "loops")


def write_json(sets: Sequence[SetScore], path: Path, fields: Sequence[str] = ()) -> None:
    """Write sets as JSON: rates are fractions, counts are of the unit, null where nothing was read.

    Each utterance is there with both texts, so that another run can be compared with this one.

    Args:
        sets: what to write.
        path: where.
        fields: of the manifest, whose groups are written too.
    """
    write_tree(path, {"sets": [set_as_json(one, fields) for one in sets]})


def set_as_json(one: SetScore, fields: Sequence[str] = ()) -> dict[str, Any]:
    """Return a set's figures, groups, confusions and utterances."""
    counted = asdict(one.score) if one.score else {}
    return {
        "name": one.name,
        "system": one.system,
        "mode": one.mode,
        "backend": one.backend,
        "speaker_statistics": one.speaker_statistics is not None,
        "unit": one.rules.unit,
        "normalisation": one.rules.normalisation,
        "utterances": len(one.results),
        "hours": one.hours,
        **_rates(one),
        **{name: counted.get(name) for name in COUNTS},
        "rate": one.score.rate if one.score else None,
        "rate_ci95": one.score.rate_ci95 if one.score else None,
        "rtf": one.rtf,
        "delay": asdict(one.delay) if one.delay else None,
        "phrases": one.phrases._asdict() if one.phrases else None,
        "unreadable": len(one.failures),
        "reliability": [each._asdict() for each in reliability(rated(one.results))],
        "by": {
            name: [group_as_json(group) for group in part] for name, part in groups(one, fields)
        },
        "confusions": asdict(confusions(one.results)),
        "results": [_compared(result) for result in one.results],
    }


def _rates(one: SetScore) -> dict[str, Any]:
    """Return a set's error rates and intervals by name: of words and characters, or of phones."""
    if one.rules.unit != "phone":
        return {name: getattr(one.score, name, None) for name in RATES}
    score = one.score
    return {"per": score.rate if score else None, "per_ci95": score.rate_ci95 if score else None}


def groups(one: SetScore, fields: Sequence[str]) -> Iterator[tuple[str, list[Group]]]:
    """Yield the names and groups of a set: by speaker, by length, by each field."""
    if one.results:
        yield "speaker", by_speaker(one.results)
        yield "length", by_length(one.results)
        for field in fields:
            yield field, by_field(one.results, field)


def group_as_json(group: Group) -> dict[str, Any]:
    """Return a group's figures."""
    return {
        "name": group.name,
        "utterances": group.utterances,
        **group.errors._asdict(),
        "rate": group.rate,
        "rate_ci95": group.ci95,
    }


def _compared(result: Result) -> dict[str, Any]:
    return {
        "id": result.utterance.id,
        "speaker": result.utterance.speaker,
        "reference": result.reference,
        "hypothesis": result.hypothesis,
        "errors": result.errors.total,
        "length": result.errors.length,
    }


def write_sclite(sets: Sequence[SetScore], folder: Path) -> None:
    """Write NAME.ref.trn, NAME.hyp.trn, NAME.ref.stm and NAME.hyp.ctm for each set.

    `sclite -r NAME.ref.trn trn -h NAME.hyp.trn trn -i spu_id` scores the texts as they were
    compared; `sclite -r NAME.ref.stm stm -h NAME.hyp.ctm ctm` scores the words, as they were
    written, by their times.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for one in sets:
        lines: dict[str, list[str]] = {"ref.trn": [], "hyp.trn": [], "ref.stm": [], "hyp.ctm": []}
        names = _labels(result.utterance.id for result in one.results)
        speakers = _labels(result.utterance.speaker for result in one.results)
        for result in one.results:
            utterance = result.utterance
            speaker, name = speakers[utterance.speaker], names[utterance.id]
            lines["ref.trn"].append(f"{result.reference} ({speaker}_{name})")
            lines["hyp.trn"].append(f"{result.hypothesis} ({speaker}_{name})")
            lines["ref.stm"].append(
                f"{name} 1 {speaker} 0.000 {utterance.duration:.3f} {result.reference}"
            )
            lines["hyp.ctm"] += [
                f"{name} 1 {word.start:.3f} {word.end - word.start:.3f} {word.text}"
                for word in words_of(_within(result))
            ]
        for kind, rows in lines.items():
            path = folder / f"{one.name.replace('/', '-')}.{kind}"
            write_whole(path, "".join(f"{row}\n" for row in rows))


def _within(result: Result) -> Iterator[Character]:
    """Yield characters; those that the silence behind a recording brought out are of its end."""
    end = result.utterance.duration
    return (replace(one, time=min(one.time, end)) for one in result.characters)


def _labels(names: Iterable[str]) -> dict[str, str]:
    """Return names that sclite takes as one word, and whose speaker ends at the first _, by name.

    Where two become the same, the later has a number behind it: `a.b` of `a-b`, `a.b.2` of `a/b`.
    """
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        plain = re.sub(r"[^\w.]|_", ".", name)
        numbered = (f"{plain}.{k}" for k in count(2))
        labels[name] = next(one for one in chain([plain], numbered) if one not in taken)
        taken.add(labels[name])
    return labels
