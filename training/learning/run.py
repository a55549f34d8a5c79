"""`cortado train`: gather the corpora, then train in one process or several."""

import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path

import torch
import torch.distributed as dist

from cortado.model import checkpoint_reader
from cortado.model.lock import LOCK, locked
from cortado.model.processes import Line, ProcessHere
from cortado.model.progress import Progress, unwatched
from cortado.training.data import manifest
from cortado.training.data.evaluation_sets import set_name
from cortado.training.data.log_mel_cache import CachedCorpus, cached
from cortado.training.data.manifest import Utterance
from cortado.training.data.pronounce import lexicon
from cortado.training.data.recordings import samples_of
from cortado.training.data.text_sampler import TextSampler
from cortado.training.data.tied_states import States, aligner, states_of
from cortado.training.learning.allocator import keep_freed_memory
from cortado.training.learning.device import device_of, make_matmuls_reproducible
from cortado.training.learning.monitor import Monitor, Recording, ValidationSet
from cortado.training.learning.recipe import Corpus, Recipe
from cortado.training.learning.resumption import last_state, standing
from cortado.training.learning.snapshot import snapshots
from cortado.training.learning.trainer import Trainer

log = logging.getLogger(__name__)
TIMEOUT = timedelta(hours=12)  # for the first process, which prepares corpora and validates


def train(
    recipe: Recipe,
    output: Path,
    processes: int = 1,
    progress: Progress = unwatched,
    device: str | None = None,
) -> Path:
    """Train a recipe, or go on with it; return the folder of its checkpoint.

    Args:
        recipe: what to train.
        output: the run's folder: snapshots, TensorBoard's files, checkpoint.
        processes: data-parallel processes of one thread each; ignored under `torchrun`.
        progress: called as parts of the work advance.
        device: where processes compute: cpu, cuda or mps; CUDA where there is one if None.

    Raises:
        ValueError: a device that is not there, a broken manifest, what is said of a start that
            the recipe lacks, a run begun with another number of processes, another model, other
            frozen weights or another optimiser, or one that another process trains now.
        OSError: a file that cannot be read or written, a GPU with too little memory, or the end of
            one of the processes.
        PronunciationError: espeak-ng is missing, which a recipe that learns states of phones needs.
    """
    make_matmuls_reproducible()
    recipe.check_start()
    check_files(recipe, output)
    device = device_of(device).type  # refused before anything is prepared
    output.mkdir(parents=True, exist_ok=True)
    rank = int(os.environ.get("RANK", 0))  # under torchrun, which has set the rendezvous
    with locked(output / LOCK, wait=False) if rank == 0 else nullcontext():
        if "RANK" in os.environ:
            size = int(os.environ["WORLD_SIZE"])
            if rank == 0:
                log.info(standing(output, recipe, last_state(output, recipe, size)))
            _process(rank, size, "env://", recipe, output, device)
        else:
            _train_here(recipe, output, processes, progress, device)
    return output / "checkpoint"


def _train_here(
    recipe: Recipe, output: Path, processes: int, progress: Progress, device: str
) -> None:
    """Prepare the corpora, and train in processes of this machine; this one is the first."""
    log.info(standing(output, recipe, last_state(output, recipe, processes)))
    for corpus in recipe.corpora:
        prepare(corpus, output, processes, recipe, progress)
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = (Path(folder) / "rendezvous").as_uri()
        others = list[ProcessHere]()
        try:
            for rank in range(1, processes):
                work = partial(_process, rank, processes, rendezvous, recipe, output, device)
                # No daemon: beside a GPU it starts loaders of its own.
                others.append(ProcessHere(partial(_begin, work), daemon=False))
            for other in others:  # a rendezvous feels neither Ctrl-C nor that one of them has ended
                other.receive()
            _process(0, processes, rendezvous, recipe, output, device, progress)
        except (EOFError, RuntimeError) as error:  # gloo's is a RuntimeError
            for other in others:
                if wait([other.line], 1.0):
                    expected = f"expected {processes} processes that train"
                    raise OSError(f"{expected}, got {other.end()}") from error
            raise
        finally:
            for other in others:
                other.stop()


def check_files(recipe: Recipe, output: Path) -> None:
    """Look, before hours of preparation, whether what is needed in and after it can be read.

    Raises:
        ValueError: a broken manifest, text or checkpoint.
        OSError: a file that is not there.
    """
    vocabulary = recipe.model.vocabulary
    for one in (one for path in recipe.validation for one in validation_utterances(recipe, path)):
        manifest.spoken(one, vocabulary)
        one.audio.stat()
    for corpus in recipe.corpora:
        manifest.read_for(corpus.manifest, vocabulary)
    if recipe.text:
        TextSampler(recipe.text, vocabulary, recipe.seed)
    if recipe.start and not snapshots(output):
        checkpoint_reader.read(recipe.start)


def prepare(
    corpus: Corpus,
    output: Path,
    workers: int,
    recipe: Recipe,
    progress: Progress = unwatched,
) -> CachedCorpus:
    """Return a corpus' log-mel frames.

    Args:
        corpus: its manifest, with texts of the model's vocabulary.
        output: the run's folder, in which the cache is.
        workers: processes.
        recipe: gives the vocabulary, the features and the speeds.
        progress: called as the work advances.
    """
    report = partial(progress, f"features {set_name(corpus.manifest)}")
    model, cache = recipe.model, output / "cache"
    made = model.vocabulary, model.features, recipe.speeds
    return cached(corpus.manifest, cache, workers, report, *made)


def _begin(work: Callable[[], None], line: Line) -> None:
    """Say that all is imported, and work."""
    line.send(None)
    work()


def _process(
    rank: int,
    processes: int,
    rendezvous: str,
    recipe: Recipe,
    output: Path,
    device: str,
    progress: Progress = unwatched,
) -> None:
    """Be one process of a run."""
    keep_freed_memory()
    if processes > 1:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", rendezvous, TIMEOUT, processes, rank)
    if rank > 0:
        dist.barrier()  # until the first process has filled the caches
    corpora = [prepare(corpus, output, 1, recipe) for corpus in recipe.corpora]
    states: Sequence[States] = ()
    phones: Sequence[int] = ()
    if recipe.learns_states:
        states, phones = tied_states(recipe, corpora, output, progress)
    if rank == 0 and processes > 1:
        dist.barrier()
    monitor = None
    if rank == 0:
        total = sum(stage.steps for stage in recipe.stages)
        monitor = Monitor(
            output,
            validation_sets(recipe),
            lambda step, message: progress(message, step, total),
        )
    try:
        Trainer(recipe, corpora, output, states, device, phones).run(monitor)
    except torch.OutOfMemoryError as error:
        raise OSError(
            f"expected a GPU with room for batches of {recipe.batch_seconds:g} s, got {error}; "
            "a smaller batch_seconds needs less"
        ) from error
    if monitor:
        monitor.close()
    if processes > 1:
        dist.barrier()  # the first process hosts the rendezvous, so it ends last
        dist.destroy_process_group()


def tied_states(
    recipe: Recipe,
    corpora: Sequence[CachedCorpus],
    output: Path,
    progress: Progress = unwatched,
) -> tuple[Sequence[States], Sequence[int]]:
    """Return the tied states of each corpus' frames, and their phones.

    The aligner learns from the corpora where the run has none yet.
    """
    cache = output / "cache"
    texts = (one.text for corpus in corpora for one in corpus.utterances)
    words = lexicon(texts, cache / "pronunciations.json", partial(progress, "pronounce words"))
    path = cache / "triphones.safetensors"
    if not path.exists():
        progress("learn an aligner of phones", 0, 1)
    found = aligner(corpora, words, path, recipe.tied_states)
    report = partial(progress, "align phones")
    states = [states_of(corpus, found, words, report) for corpus in corpora]
    return states, found.phones.tolist()


def validation_utterances(recipe: Recipe, path: Path) -> list[Utterance]:
    """Return the utterances of a manifest that are validated with.

    They are as many as the recipe says, spread over the manifest, where a speaker's stand together.
    """
    utterances = manifest.read(path, None)
    count = min(recipe.validation_utterances, len(utterances))
    return [utterances[k * len(utterances) // count] for k in range(count)]


def validation_sets(recipe: Recipe) -> dict[str, ValidationSet]:
    """Return recordings of each validation manifest, by name, with their texts."""
    vocabulary = recipe.model.vocabulary
    return {
        set_name(path): [
            Recording(samples_of(one), manifest.spoken(one, vocabulary), one.id, one.speaker)
            for one in validation_utterances(recipe, path)
        ]
        for path in recipe.validation
    }
