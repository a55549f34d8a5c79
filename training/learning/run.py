"""`cortado train`: gather the corpora, then train in one process or several."""

import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.distributed as dist

from cortado.model.config import RecognizerConfig
from cortado.training.data import log_mel_cache as logmel
from cortado.training.data import manifest
from cortado.training.data.log_mel_cache import cached
from cortado.training.data.pronounce import lexicon
from cortado.training.data.recordings import samples_of
from cortado.training.learning.allocator import keep_freed_memory
from cortado.training.learning.device import device_of
from cortado.training.learning.monitor import Monitor, Recording, ValidationSet
from cortado.training.learning.recipe import Corpus, Recipe
from cortado.training.learning.trainer import Trainer
from cortado.training.synthesis.corpus import SynthConfig, synthesise
from cortado.training.synthesis.splice import SplicedCorpus, word_edges

Progress = Callable[[str, int, int], None]  # what is done, how many, of how many
PATIENCE = timedelta(hours=12)  # for the first process, which prepares corpora and validates


def train(
    recipe: Recipe,
    output: Path,
    processes: int = 1,
    progress: Progress | None = None,
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
        ValueError: a device that is not there, a broken manifest, or a run begun with another
            number of processes.
        OSError: a file that cannot be read or written.
        PronunciationError: espeak-ng is missing, which a recipe that hears phones needs.
    """
    device = device_of(device).type  # refused before anything is prepared
    output.mkdir(parents=True, exist_ok=True)
    if "RANK" in os.environ:  # under torchrun, which has set the rendezvous
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        _process(rank, size, "env://", recipe, output, device)
        return output / "checkpoint"
    for corpus in recipe.corpora:
        prepare(corpus, output, processes, recipe.model, progress)
    with tempfile.TemporaryDirectory() as meeting:
        rendezvous = (Path(meeting) / "rendezvous").as_uri()
        others = [
            get_context("spawn").Process(
                target=_process,
                args=(rank, processes, rendezvous, recipe, output, device),
                daemon=True,
            )
            for rank in range(1, processes)
        ]
        for other in others:
            other.start()
        try:
            _process(0, processes, rendezvous, recipe, output, device, progress)
        finally:
            for other in others:
                other.terminate()
                other.join()
    return output / "checkpoint"


def prepare(
    corpus: Corpus,
    output: Path,
    workers: int,
    model: RecognizerConfig,
    progress: Progress | None = None,
) -> logmel.Corpus:
    """Return a corpus' log-mel frames, its synthetic speech made first where it is not there.

    One that is spliced is put together from its frames.

    Args:
        corpus: its manifest, whose texts the model can spell.
        output: the run's folder, in which the cache is.
        workers: processes.
        model: whose vocabulary and features are wanted.
        progress: called as the work advances.
    """
    name = f"{corpus.manifest.parent.name}/{corpus.manifest.stem}"
    if corpus.synthesis and not corpus.manifest.exists():
        folder = corpus.manifest.parent
        wanted = corpus.synthesis
        config = SynthConfig(wanted.text, folder, wanted.count, wanted.seed, workers)
        synthesise(config, _named(progress, f"synthesise {name}"))
    report = _named(progress, f"features {name}")
    cache = output / "cache"
    recorded = cached(corpus.manifest, cache, workers, report, model.vocabulary, model.features)
    if not corpus.splice:
        return recorded
    report = _named(progress, f"words {name}")
    edges = word_edges(recorded, report)
    splice = corpus.splice
    return SplicedCorpus(recorded, edges, splice.text, splice.count, splice.seed)


def _named(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    return (lambda done, total: progress(name, done, total)) if progress else None


def _process(
    rank: int,
    processes: int,
    rendezvous: str,
    recipe: Recipe,
    output: Path,
    device: str,
    progress: Progress | None = None,
) -> None:
    """Be one process of a run."""
    keep_freed_memory()
    if processes > 1:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", rendezvous, PATIENCE, processes, rank)
    if rank > 0:
        dist.barrier()  # until the first process has filled the caches
    corpora = [prepare(corpus, output, 1, recipe.model) for corpus in recipe.corpora]
    words = None
    if recipe.hears_phones:
        texts = (one.text for corpus in corpora for one in corpus.utterances)
        kept = output / "cache" / "pronunciations.json"
        words = lexicon(texts, kept, _named(progress, "pronounce words"))
    if rank == 0 and processes > 1:
        dist.barrier()
    monitor = None
    if rank == 0:
        total = sum(stage.steps for stage in recipe.stages)
        report = (lambda step, message: progress(message, step, total)) if progress else None
        monitor = Monitor(output, validation_sets(recipe), report)
    Trainer(recipe, corpora, output, words, device).run(monitor)
    if monitor:
        monitor.close()
    if processes > 1:
        dist.barrier()  # the first process keeps the meeting point: nobody may need it after it
        dist.destroy_process_group()


def validation_sets(recipe: Recipe) -> dict[str, ValidationSet]:
    """Return the first recordings of each validation manifest, by name, with their texts."""
    sets: dict[str, ValidationSet] = {}
    vocabulary = recipe.model.vocabulary
    for path in recipe.validation:
        utterances = manifest.read(path, None)[: recipe.validation_utterances]
        said = [
            Recording(samples_of(one), manifest.spoken(one, vocabulary), one.id, one.speaker)
            for one in utterances
        ]
        sets[f"{path.parent.name}/{path.stem}"] = said
    return sets
