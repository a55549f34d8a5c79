"""`cortado evaluate`: the error rates of a recogniser or of a running server."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from cortado.clients.commands.failures import EXIT_FAILURE, absent, complain
from cortado.clients.commands.terminal import (
    Backend,
    Checkpoint,
    Hold,
    Json,
    Lm,
    Width,
    check_folder,
    check_places,
    console,
    examples,
    use_one_thread,
)

if TYPE_CHECKING:
    from cortado.model.config import RecognizerConfig
    from cortado.model.recognizer import Recognizer
    from cortado.model.search.offline import Mode as OfflineMode
    from cortado.model.search.settings import Beam
    from cortado.model.streaming.interface import StreamingRecognizer
    from cortado.model.streaming.options import StreamOptions
    from cortado.training.data.evaluation_sets import NamedSet
    from cortado.training.scoring.evaluate import Rules
    from cortado.training.scoring.spoken_ends import SpokenEnds
    from cortado.training.scoring.systems import System, Transcribe

EXAMPLES = examples(
    "cortado evaluate ../shared/data/librispeech-mini/dev.jsonl",
    "cortado evaluate recordings/ --json scores.json --html report.html",
    "cortado evaluate dev.jsonl --server ws://127.0.0.1:8000/v1/stream",
    "cortado evaluate dev.jsonl --compare before.json --by accent",
    "cortado evaluate dev.jsonl --phrases names.txt --compare before.json",
)


Mode = Literal["online", "uncapped", "hard-beam", "expected", "beam"]
Unit = Literal["word", "char", "phone"]


def evaluate(
    sets: Annotated[
        list[Path],
        typer.Argument(
            help="Manifests (JSON lines), folders of manifests, or folders of recordings with a "
            ".txt beside each."
        ),
    ],
    server: Annotated[
        str | None, typer.Option(help="Score a running server: its stream, ws:// or wss://.")
    ] = None,
    mode: Annotated[Mode, typer.Option(help="The search; online is how it serves.")] = "online",
    unit: Annotated[
        Unit | None,
        typer.Option(help="What is counted; phones of a model that writes them, else words."),
    ] = None,
    normalise: Annotated[
        Literal["none", "corpus", "whisper"],
        typer.Option(help="Done to both texts before they are compared."),
    ] = "none",
    by: Annotated[
        list[str] | None, typer.Option(help="A manifest's field to group by; may be given again.")
    ] = None,
    json_file: Json = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page here that holds all it needs.")
    ] = None,
    worst: Annotated[
        int, typer.Option(min=0, help="Utterances on the page with sound and attention.")
    ] = 30,
    compare: Annotated[
        Path | None, typer.Option(help="Another run's --json, to be held against this one.")
    ] = None,
    trn: Annotated[
        Path | None, typer.Option(help="A folder for sclite's files: trn, stm and ctm.")
    ] = None,
    phrases: Annotated[
        Path | None,
        typer.Option(help="A file of phrases, one a line: streams expect them; scored apart."),
    ] = None,
    aligner: Annotated[
        Path | None,
        typer.Option(
            help="A training run's cache/triphones.safetensors: delays count from phones."
        ),
    ] = None,
    backend: Backend = "auto",
    beam: Width = None,
    hold: Hold = None,
    lm: Lm = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Score a model or a server: error rates, delays, confusions."""
    from cortado.clients.progress import progress_bar
    from cortado.model.checkpoint_reader import DEFAULT, read_config
    from cortado.model.search.settings import beam_from_options
    from cortado.model.streaming.options import StreamOptions
    from cortado.training.data.evaluation_sets import gather
    from cortado.training.scoring import outputs, report
    from cortado.training.scoring.breakdown import check_fields
    from cortado.training.scoring.comparison import check_comparable, compared, read_other
    from cortado.training.scoring.evaluate import Rules
    from cortado.training.scoring.evaluate import evaluate as run
    from cortado.training.scoring.page import PagePlan, write_page

    use_one_thread()
    fields = by or []
    check_places(json_file, html, given=sets)
    check_folder(trn)
    other = read_other(compare) if compare else None
    chosen = gather(sets)
    for each in chosen:
        check_fields(each.utterances, fields)
    asked: dict[str, object] = {"--beam": beam, "--hold": hold, "--lm": lm}
    if not (server and checkpoint):  # with both, a server's delays are counted from the aligner's
        asked["--aligner"] = aligner
    _check_search(server, mode, asked, backend)
    folder = checkpoint or DEFAULT
    config = None if server is not None else read_config(folder)
    counted = _unit(unit, folder.name, config)
    expected = _phrases(phrases, mode, counted) if phrases else ()
    rules = Rules.named(counted, normalise, expected)
    if other is not None:
        check_comparable(chosen, rules, other)
    search = beam_from_options(beam, hold, lm)
    options = StreamOptions(expected)
    if server is not None:
        system = _at_server(server, checkpoint, options)
    else:
        assert config is not None
        system = _system(folder, config, mode, backend, search, lm, options)
    ends = _spoken_ends(aligner, chosen, rules) if aligner else None
    with progress_bar() as progress:
        scores = run(system, chosen, rules, progress, ends)
        comparisons = [] if other is None else compared(scores, other)
        if json_file is not None:
            outputs.write_json(scores, json_file, fields)
        if trn is not None:
            outputs.write_sclite(scores, trn)
        if html is not None:
            plan = PagePlan(worst, fields, comparisons)
            write_page(scores, html, system.recognizer, plan, progress)
    out = console()
    out.print(report.table(scores))
    for one in scores:
        for table in report.further(one, fields):
            out.print(table)
    for line in comparisons:
        out.print(report.comparison(line))
    failures = [failure for one in scores for failure in one.failures]
    for failure in failures:
        complain(failure)
    if failures:
        raise typer.Exit(EXIT_FAILURE)


def _check_search(
    server: str | None, mode: Mode, options: Mapping[str, object], backend: str
) -> None:
    """Look whether what is asked of the search of streams, and of its delays, has one here.

    Raises: ValueError where a server, or a search of whole utterances, would not heed it.
    """
    if server is not None and (mode != "online" or backend != "auto"):
        got = f"--mode {mode}" if mode != "online" else f"--backend {backend}"
        raise ValueError(f"expected --mode online and no --backend with --server, got {got}")
    asked = [name for name, value in options.items() if value is not None]
    if asked and (server is not None or mode != "online"):
        got = "--server" if server is not None else f"--mode {mode}"
        raise ValueError(
            f"expected {' and '.join(asked)} with --mode online and a checkpoint, got {got}"
        )


def _unit(asked: Unit | None, name: str, config: "RecognizerConfig | None") -> Unit:
    """Return what is counted: what is asked for, or what the model of this name writes.

    Raises: ValueError where it writes phones and others are asked for.
    """
    if config is None or not config.vocabulary.phones:
        return asked or "word"
    if asked not in (None, "phone"):
        raise ValueError(f"expected --unit phone for {name}, got {asked}")
    return "phone"


def _phrases(path: Path, mode: Mode, unit: str) -> tuple[str, ...]:
    """Return the phrases of a file, one a line.

    Raises: ValueError where there are none, or the command has no use for them; OSError.
    """
    from cortado.model.audio.remote import text_of

    if mode != "online" or unit == "phone":
        got = f"--mode {mode}" if mode != "online" else f"--unit {unit}"
        raise ValueError(f"expected --phrases with --mode online and words, got {got}")
    found = tuple(stripped for line in text_of(path).splitlines() if (stripped := line.strip()))
    if not found:
        raise ValueError(f"expected a phrase on each line of {path}, got none")
    return found


def _at_server(server: str, checkpoint: Path | None, options: "StreamOptions") -> "System":
    """Return a running server that is to be evaluated."""
    from cortado.clients.through_server import transcribe_served
    from cortado.training.scoring.systems import System, in_order

    # Emission delays need the server's model here; nobody but the user knows which it is.
    known = _in_torch(checkpoint) if checkpoint else None
    hear = in_order(partial(transcribe_served, server, phrases=options.phrases))
    return System(server, "online", hear, known, "server")


def _system(
    folder: Path,
    config: "RecognizerConfig",
    mode: Mode,
    backend: str,
    beam: "Beam | None",
    lm: str | None,
    options: "StreamOptions",
) -> "System":
    """Return the checkpoint that is to be evaluated, given what it is.

    Raises: ValueError where it cannot be loaded, or decodes in other modes.
    """
    from cortado.model.attention.config import MONOTONIC
    from cortado.model.backends.choice import load_recognizer
    from cortado.training.scoring.systems import served

    streams = config.decoder.kind == "ctc" or config.decoder.attention.kind in MONOTONIC
    if mode == "online" and streams and not config.features.by_speaker:
        chosen = load_recognizer(folder, backend, beam, lm)
        return served(chosen, folder.name, _in_torch(folder), options)
    return _in_reference(folder, mode, backend, beam, lm, options)


def _spoken_ends(aligner: Path, sets: "Sequence[NamedSet]", rules: "Rules") -> "SpokenEnds":
    """Return when the characters of the sets end, by an aligner of phones."""
    from cortado.training.scoring.spoken_ends import SpokenEnds

    texts = [utterance.text for one in sets for utterance in one.utterances]
    return SpokenEnds.load(aligner, [*texts, *map(rules.normaliser.apply, texts)])


def _in_torch(folder: Path) -> "Recognizer | None":
    """Return a checkpoint's recogniser for delays and pictures; None where torch is absent."""
    try:
        from cortado.model.checkpoint import load
    except ModuleNotFoundError as error:
        complain(ValueError(f"no emission delays and pictures of attention: {absent(error)}"))
        return None
    return load(folder)


def _in_reference(
    folder: Path,
    mode: Mode,
    backend: str,
    beam: "Beam | None",
    lm: str | None,
    options: "StreamOptions",
) -> "System":
    """Return a checkpoint that only PyTorch evaluates: whole utterances, or by their speakers."""
    from cortado.model.backends.choice import check_language_model_used, choose
    from cortado.model.checkpoint import load
    from cortado.model.search.language_file import language_of
    from cortado.model.search.offline import modes, transcribe_offline
    from cortado.training.scoring.systems import offline, served_by_speaker

    recognizer = load(folder)
    possible = modes(recognizer)
    wanted = _offline(mode)
    if wanted not in possible:
        names = " or ".join(one for one in get_args(Mode) if _offline(one) in possible)
        raise ValueError(f"expected --mode {names} for {folder.name}, got {mode}")
    if mode == "online":
        words = language_of(folder, recognizer.config.vocabulary, lm)

        def serve(one: "Recognizer") -> "StreamingRecognizer":
            chosen = choose(one, backend, beam, words)
            check_language_model_used(lm, chosen.name, chosen.beam.uses_language_model)
            return chosen

        return served_by_speaker(recognizer, folder.name, serve, options)

    def search(one: "Recognizer") -> "Transcribe":
        return lambda audio: (
            (index, transcribe_offline(one, samples, wanted)) for index, samples in enumerate(audio)
        )

    return offline(recognizer, folder.name, mode, search)


def _offline(mode: Mode) -> "OfflineMode":
    """Return the name of a search among those of whole utterances."""
    return "hard" if mode == "online" else mode
