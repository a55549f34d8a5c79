"""Scores of a run: BLEU by sacrebleu, ROUGE by rouge-score, perplexity; stored as one JSON file."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from cortado.model.config_reader import json_tree
from cortado.model.progress import Progress, counted, unwatched
from cortado.model.whole_file import write_tree, write_whole
from cortado.training.text.batches import collate
from cortado.training.text.loss import loss
from cortado.training.text.model import TextModel
from cortado.training.text.picture import draw
from cortado.training.text.readers import Pair
from cortado.training.text.recipe import Row, Task, TextRecipe, configuration
from cortado.training.text.search import Source, search
from cortado.training.text.train import RUN, folder_of, load, pairs_of

Way = Literal["hard", "expected"]
ROUGE = ("rouge1", "rouge2", "rougeL")


def evaluate(
    recipe: TextRecipe,
    row: Row,
    seed: int,
    output: Path,
    results: Path,
    progress: Progress = unwatched,
) -> Path:
    """Score a run on the test set in every way that it can decode; return the file of its scores.

    Targets are whole, however long those of training are.

    Of a row's first seed the alignments of the recipe's sentences are drawn.

    Raises:
        ValueError: the run has not ended or is another recipe's, or a set cannot be read.
        OSError: a file that cannot be read or written.
    """
    folder = folder_of(output, row, seed)
    model = load(recipe, row, folder)
    pairs, dev = (
        pairs_of(recipe, paths, whole=True) for paths in (recipe.data.test, recipe.data.dev)
    )
    ways: tuple[Way, ...] = ("hard", "expected") if model.decoder.online else ("expected",)
    scores: dict[str, Any] = {}
    for way in ways:
        texts = []
        found = written(recipe, model, pairs, way)
        count = partial(progress, f"{folder.name} {way}")
        for number, (text, weights) in enumerate(counted(found, len(pairs), count), 1):
            texts.append(" ".join(text))
            if way == ways[0] and seed == row.seeds[0] and number - 1 in recipe.pictures:
                path = results / "alignments" / f"{recipe.name}-{row.name}-{number}.svg"
                title = f"{recipe.name}: {row.title}"
                draw(pairs[number - 1].source, text, weights, path, title)
        targets = [" ".join(pair.target) for pair in pairs]
        scores[way] = score(recipe.task, texts, targets)
        write_whole(folder / f"{way}.txt", "\n".join(texts) + "\n")
    record = {
        "recipe": recipe.name,
        "row": row.name,
        "seed": seed,
        "configuration": configuration(recipe, row),
        "sentences": len(pairs),
        "parameters": sum(one.numel() for one in model.parameters()),
        "perplexity": round(perplexity(recipe, model, pairs), 2),
        "dev_perplexity": round(perplexity(recipe, model, dev), 2),
        "scores": scores,
    } | json_tree(folder / RUN)
    path = results / f"{recipe.name}-{row.name}-{seed}.json"
    write_tree(path, record)
    return path


def written(
    recipe: TextRecipe, model: TextModel, pairs: Sequence[Pair], way: Way
) -> Iterator[tuple[list[str], Tensor]]:
    """Yield what the model writes of each source, by hard stops or expected weights.

    Yields: U words, and the weights (U, T) of the source's words in each one's context.
    """
    words, beam, limit = model.words.target, recipe.decoder.beam, recipe.data.longest_target
    for pair in pairs:
        extra = words.lacking(pair.source) if model.copies else ()
        source = Source(
            torch.tensor(model.words.source.encode(pair.source)),
            torch.tensor(words.encode(pair.source, extra)),
            len(extra),
        )
        found = search(model, source, way == "hard", beam, limit)
        yield words.decode(found.symbols, extra), found.weights


@torch.inference_mode()
def perplexity(recipe: TextRecipe, model: TextModel, pairs: Sequence[Pair]) -> float:
    """Return exp of the nats a word and end, with the expected weights, no noise and all words.

    A word that the vocabulary lacks counts as the unknown word; with copies, as itself where the
    source has it.
    """
    nats, count, size = 0.0, 0, recipe.training.batch
    for begin in range(0, len(pairs), size):
        batch = collate(pairs[begin : begin + size], model.words, recipe.copies)
        one = loss(model, batch, recipe.training)
        nats, count = nats + one.nats.item(), count + one.words
    return math.exp(nats / count)


def score(task: Task, texts: Sequence[str], targets: Sequence[str]) -> dict[str, float]:
    """Return the scores of texts in %: BLEU of a translation, ROUGE-1, 2 and L of a summary.

    BLEU is of the words as the data has them (sacrebleu's tokenisation "none"); ROUGE is the mean
    of F with Porter's stemmer.
    """
    if task == "translation":
        import sacrebleu

        found = sacrebleu.corpus_bleu(list(texts), [list(targets)], tokenize="none", force=True)
        return {"bleu": round(found.score, 2), "length": round(found.sys_len / found.ref_len, 3)}
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(ROUGE, use_stemmer=True)
    each = [scorer.score(*pair) for pair in zip(targets, texts, strict=True)]
    return {
        name: round(100 * sum(one[name].fmeasure for one in each) / len(each), 2) for name in ROUGE
    }
