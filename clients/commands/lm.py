"""`cortado lm`: make a language model of text."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from cortado.clients.commands.terminal import check_places, examples

EXAMPLES = examples(
    "cortado lm sentences.txt -o mine.safetensors",
    "cortado lm train.jsonl books.txt --megabytes 13 --common 50000 -o mine.safetensors",
    "cortado lm train.jsonl books.txt --neural 1 -o mine.safetensors",
)

NOTABLE = 0.05  # share of a text's words that are unknown


def lm(
    texts: Annotated[
        list[Path],
        typer.Argument(
            help="Files with a sentence a line, or manifests; one that is named twice counts twice."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    seen: Annotated[
        int, typer.Option(min=1, help="Occurrences that a word needs to be known.")
    ] = 1,
    megabytes: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Size that the file may have; what the text needs least is left out of it.",
        ),
    ] = None,
    common: Annotated[
        int,
        typer.Option(
            min=0, help="So many of English's commonest words are known, too, whatever the text."
        ),
    ] = 0,
    weight: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=10,
            help="How much the language model counts in the search; 0.3 if not set.",
        ),
    ] = None,
    bonus: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=10,
            help="Nats that each written symbol gains, against short texts; 0.6 if not set.",
        ),
    ] = None,
    outside: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=10,
            help="Nats that each letter of a word outside the lexicon costs, times the weight; 2 if"
            " not set.",
        ),
    ] = None,
    neural: Annotated[
        int,
        typer.Option(
            min=0,
            help="Passes over the text by which a neural model of five words learns, which the "
            "search mixes with the trigram; 0 for none.",
        ),
    ] = 0,
    alphabet: Annotated[
        str, typer.Option(help="Letters that words have; a word with another is not known.")
    ] = "'abcdefghijklmnopqrstuvwxyz",
) -> None:
    """Make a language model of words from text, for the search.

    The text is to be written as the recogniser writes: for the shipped model in lower case, without
    punctuation and digits. With espeak-ng installed, it knows how its words are pronounced.
    """
    from cortado.training.data.pronounce import PronunciationError
    from cortado.training.language.estimate import common_words, estimate
    from cortado.training.language.file import SearchWeights, write
    from cortado.training.language.lexicon import SPECIAL, pronunciations
    from cortado.training.language.pruning import fitted

    check_places(output, given=texts)
    letter = None if outside is None else -outside
    given = {"weight": weight, "bonus": bonus, "letter": letter}
    weights = SearchWeights(**{name: one for name, one in given.items() if one is not None})
    everywhere = common_words(common, alphabet) if common else {}
    if neural:  # needs packages that may be missing: at once, not after the trigram
        from cortado.training.language.neural import train
    model = estimate(_sentences(texts, alphabet), alphabet, seen, everywhere)
    arrays = model.arrays
    try:
        arrays |= pronunciations(arrays, alphabet)
    except PronunciationError as error:
        typer.echo(
            f"without the words' pronunciations, which the search may weigh: {error}", err=True
        )
    if neural:
        from cortado.clients.progress import progress_bar

        with progress_bar() as progress:
            learnt = train(_sentences(texts, alphabet), arrays, alphabet, neural, progress)
        arrays |= learnt.arrays
        typer.echo(f"neural language model: perplexity {learnt.perplexity:.0f} while it learnt")
    if megabytes is not None:
        arrays = fitted(model, round(megabytes * 1e6))
    write(output, arrays, alphabet, weights)
    words, bigrams, trigrams = (len(arrays[name]) for name in ("unigrams", "bigrams", "trigrams"))
    size = output.stat().st_size / 1e6
    if model.unknown > NOTABLE:
        typer.echo(
            f"{model.unknown:.0%} of the text's words are unknown: they have other letters than "
            f"{alphabet!r}, such as capitals, or are too rare",
            err=True,
        )
    typer.echo(
        f"{output}: {words - SPECIAL} words, {bigrams} bigrams, {trigrams} trigrams, {size:.1f} MB"
    )


def _sentences(paths: Iterable[Path], alphabet: str) -> Iterable[str]:
    """Yield the sentences of files, their apostrophes as the alphabet has them.

    Raises: ValueError where a manifest is none.
    """
    sentences = _written(paths)
    if "’" in alphabet:
        return sentences
    return (sentence.replace("’", "'") for sentence in sentences)


def _written(paths: Iterable[Path]) -> Iterable[str]:
    from cortado.model.audio.remote import text_of
    from cortado.training.data.manifest import read

    for path in paths:
        if path.suffix == ".jsonl":
            yield from (utterance.text for utterance in read(path, None))
        else:
            yield from text_of(path).splitlines()
