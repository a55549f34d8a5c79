"""The runs of a study: train, decode in each mode, draw the alignments, store the results."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from cortado.model import checkpoint
from cortado.model.arrays import Samples
from cortado.model.backends.choice import choose
from cortado.model.checkpoint_reader import WEIGHTS, read_card
from cortado.model.processes import Line, ProcessHere
from cortado.model.progress import Progress, unwatched
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import Mode, modes, transcribe_batch
from cortado.model.search.settings import GREEDY
from cortado.model.streaming.recordings import transcribe_many
from cortado.training.data.evaluation_sets import NamedSet, set_name
from cortado.training.data.manifest import Utterance, spoken
from cortado.training.data.manifest import read as read_manifest
from cortado.training.data.recordings import samples_of
from cortado.training.learning import recipe as recipes
from cortado.training.learning import snapshot as runstate
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.run import train
from cortado.training.scoring.attending import attend
from cortado.training.scoring.attention_picture import draw
from cortado.training.scoring.edits import Unit, errors
from cortado.training.scoring.evaluate import Rules, SetScore, evaluate
from cortado.training.scoring.systems import Hypotheses, System, Transcribe, in_order
from cortado.training.studies.plan import DIGITS, Plan, Study, plans, shared
from cortado.training.studies.record import (
    RATES,
    CorpusShare,
    Count,
    Run,
    Scored,
    Start,
    stored,
    write,
)

OFFLINE: tuple[Mode, ...] = ("uncapped", "hard-beam", "expected", "beam")  # over whole utterances
AT_ONCE = 16  # utterances that are decoded in one batch, of like length

log = logging.getLogger(__name__)


def run(
    study: Study,
    output: Path,
    rows: Sequence[str] = (),
    start: Path | None = None,
    progress: Progress = unwatched,
) -> list[Path]:
    """Make the runs of a study that are not stored yet; return the files of those made.

    Args:
        study: what is compared.
        output: folder of all runs; each goes on where it was stopped.
        rows: those wanted; all if empty.
        start: checkpoint with which all begin, in place of the study's own.
        progress: called as runs are done.

    Raises:
        ValueError: a row that is not known, a broken recipe, manifest or checkpoint, or stored
            runs of another recipe or start.
        OSError: a file that cannot be read or written.
    """
    wanted = [plan for plan in plans(study, rows) if not plan.result.exists()]
    before = stored(plans(study), shared(study))
    if not wanted:
        return []
    _drawn(study, [part.utterances() for part in study.sets])  # raises before the work begins
    if start is None and study.start.is_dir():
        start = study.start
    if start is None:
        _alone(_train, recipes.read(study.start), output / "encoder", study.processes)
        start = output / "encoder" / "checkpoint"
    if before and before[0].start != _start(start):
        raise ValueError(f"expected to start from {before[0].start}, got {_start(start)}")
    for done, plan in enumerate(wanted):
        progress(plan.name, done, len(wanted))
        _alone(carry_out, plan, output, start)
    progress(study.name, len(wanted), len(wanted))
    return [plan.result for plan in wanted]


def _alone(call: Callable[..., object], *arguments: object) -> None:
    """Call in a process of its own, whose memory is free again when it is done.

    Raises: ValueError, OSError as the call, and OSError where its process dies.
    """
    # No daemon: it starts processes of its own.
    process = ProcessHere(partial(_tell, partial(call, *arguments)), daemon=False)
    try:
        answer = process.receive()
    except EOFError as end:
        raise OSError(f"expected a process that carries out a run, got {process.end()}") from end
    finally:
        process.stop()
    if isinstance(answer, Exception):
        raise answer


def _tell(work: Callable[[], object], line: Line) -> None:
    """Work, and say what comes of it, or what is wrong."""
    try:
        line.send(work())
    except (ValueError, OSError) as error:
        line.send(error)


def _train(recipe: Recipe, folder: Path, processes: int) -> Path:
    """Train a recipe; the log-mel frames lie beside the run's folder, for all runs."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    cache = folder.parent / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    if not (folder / "cache").exists():
        (folder / "cache").symlink_to("../cache", target_is_directory=True)
    return train(recipe, folder, processes)


def carry_out(plan: Plan, output: Path, start: Path) -> None:
    """Train a run, evaluate it, draw its alignments, and write its file.

    Raises: ValueError, OSError as `run`.
    """
    recipe = plan.recipe(start)
    folder = output / plan.name
    recognizer = checkpoint.load(_train(recipe, folder, plan.study.processes))
    if plan.study.processes > 1:  # of which each has had one thread
        torch.set_num_threads(plan.study.processes)
    sets = [part.utterances() for part in plan.study.sets]
    scores = [scored(one) for one in evaluated(recognizer, plan.name, sets)]
    for one in scores:
        rates = " ".join(f"{RATES[of]} {count.percent:.1f}" for of, count in one.counts.items())
        log.info("%s, %s, %s: %s", plan.name, one.name, one.mode, rates)
    if plan.seed == plan.row.seeds[0]:
        draw_all(recognizer, plan, sets)
    # Last: with its file, a run is done, and one that was stopped before draws again.
    write(_run(plan, recipe, recognizer, folder, start, scores), plan.result)


def evaluated(recognizer: Recognizer, name: str, sets: Sequence[NamedSet]) -> list[SetScore]:
    """Return the scores of the sets in each way of decoding (page.WAYS) that the recogniser has.

    All are the reference's, whose numbers are the same for all mechanisms, and without endpoints: a
    recording is one utterance.
    """
    possible = modes(recognizer)
    systems = []
    if recognizer.decoder.online:
        serving = choose(recognizer, "reference", GREEDY)
        online = partial(transcribe_many, serving, rules=())
        systems.append(System(name, "online", in_order(online), recognizer))
    for mode in OFFLINE:
        if mode in possible:
            systems.append(System(name, mode, in_order(batched(recognizer, mode))))
    phones = recognizer.config.vocabulary.phones
    rules = Rules.named("phone", "corpus") if phones else Rules.named()
    return [one for each in systems for one in evaluate(each, sets, rules, unwatched)]


def batched(recognizer: Recognizer, mode: Mode) -> Transcribe:
    """Return what transcribes recordings in batches of like length."""

    def transcribe(audio: Iterable[Samples]) -> Hypotheses:
        recordings = list(audio)
        by_length = sorted(range(len(recordings)), key=lambda k: len(recordings[k]))
        for first in range(0, len(by_length), AT_ONCE):
            chosen = by_length[first : first + AT_ONCE]
            heard = transcribe_batch(recognizer, [recordings[k] for k in chosen], mode)
            yield from zip(chosen, heard, strict=True)

    return transcribe


def scored(one: SetScore) -> Scored:
    """Return the part of a set's score that is stored."""

    def count(unit: Unit) -> Count:
        each = [errors(result.reference, result.hypothesis, unit) for result in one.results]
        return Count(sum(e.total for e in each), sum(e.length for e in each))

    hours = round(one.hours, 4)
    heard = one.name, one.mode, len(one.results), hours
    if one.rules.unit == "phone":
        return Scored(*heard, None, None, one.delay, count("phone"))
    return Scored(*heard, count("word"), count("char"), one.delay)


def draw_all(recognizer: Recognizer, plan: Plan, sets: Sequence[NamedSet]) -> None:
    """Draw the alignments of the study's utterances."""
    folder = plan.study.results / "alignments"
    folder.mkdir(parents=True, exist_ok=True)
    for one in _drawn(plan.study, sets):
        monotonic = recognizer.decoder.online
        found = attend(recognizer, samples_of(one), one.text, expected=monotonic)
        path = folder / f"{plan.row.name}-{one.id.replace('/', '-')}.svg"
        draw(found, path, f"{plan.row.title}: {one.text}")


def _drawn(study: Study, sets: Sequence[NamedSet]) -> list[Utterance]:
    """Return the utterances whose alignments are drawn.

    Their text is what the recogniser is to write.

    Raises: ValueError for one that is in no set, or that the vocabulary cannot spell.
    """
    vocabulary = recipes.read(study.recipe).model.vocabulary
    by_id = {one.id: one for each in sets for one in each.utterances}
    found = []
    for name in study.pictures:
        if name not in by_id:
            raise ValueError(f"expected an utterance {name!r} to draw in the sets, got none")
        text = spoken(by_id[name], vocabulary)
        if not vocabulary.spells(text):
            raise ValueError(f"expected a text to draw that the vocabulary spells, got {text!r}")
        found.append(replace(by_id[name], text=text))
    return found


def _run(
    plan: Plan,
    recipe: Recipe,
    recognizer: Recognizer,
    folder: Path,
    start: Path,
    scores: Sequence[Scored],
) -> Run:
    state = runstate.read(runstate.snapshots(folder)[-1])
    return Run(
        row=plan.row.name,
        seed=plan.seed,
        shared=shared(plan.study),
        configuration=plan.configuration,
        start=_start(start),
        parameters=sum(parameter.numel() for parameter in recognizer.parameters()),
        updates=state["step"],
        processes=plan.study.processes,
        batch_seconds=recipe.batch_seconds,
        training_seconds=round(state["seconds"], 3),
        corpora=_corpora(recipe),
        scores=tuple(scores),
    )


def _start(folder: Path) -> Start:
    card = read_card(folder)["card"]
    weights = (folder / WEIGHTS).read_bytes()
    digest = hashlib.sha256(weights).hexdigest()[:DIGITS]
    return Start(str(card.get("recipe", folder.name)), int(card.get("steps", 0)), digest)


def _corpora(recipe: Recipe) -> tuple[CorpusShare, ...]:
    total = sum(corpus.weight for corpus in recipe.corpora)
    found = []
    for corpus in recipe.corpora:
        utterances = read_manifest(corpus.manifest, None)
        kept = [one for one in utterances if one.duration <= recipe.max_seconds]
        hours = round(sum(u.duration for u in kept) / 3600, 2)
        share = round(corpus.weight / total, 4)
        found.append(CorpusShare(set_name(corpus.manifest), share, len(kept), hours))
    return tuple(found)
