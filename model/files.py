"""Files to text: characters as they are decided, in constant memory however long the file."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from cortado.model.audio.decode import AudioError, Samples, stream
from cortado.model.backends.choice import check_weighed, choose, load_recognizer
from cortado.model.checkpoint_reader import read
from cortado.model.emission import Character
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.search import language_model as language
from cortado.model.search.beam import Beam
from cortado.model.streaming.interface import StreamingRecognizer
from cortado.model.streaming.live import listen
from cortado.model.streaming.vad import Vad


def characters(
    online: StreamingRecognizer, pieces: Iterable[Samples], vad: Vad | None = None
) -> Iterator[list[Character]]:
    """Yield the characters of steps that give any as pieces of audio at 16 kHz come in."""
    for update in listen(online, pieces, vad=vad):
        yield list(update.characters)


def recognizer_of_each(
    folder: Path, backend: str = "auto", beam: Beam | None = None, lm: str | None = None
) -> Callable[[Path], StreamingRecognizer]:
    """Return what gives the recogniser, of a checkpoint's folder, that hears a file.

    It is the same for all files, unless it normalises features by statistics of the speaker: then
    a file is its own speaker, and is read once more beforehand.

    Raises:
        CheckpointError: the checkpoint is missing, broken or of another shape.
        LanguageError: the language model that is asked for is missing or broken.
        ValueError: the backend is not there, or does not know such a model.
    """
    config = read(folder).config
    if config.features.normalisation != "speaker":
        online = load_recognizer(folder, backend, beam, lm)
        return lambda path: online
    from cortado.model.adaptation import adapted  # torch, which those that stream may not need
    from cortado.model.checkpoint import load
    from cortado.model.features.speaker import statistics_of

    recognizer = load(folder)
    features = recognizer.features
    nobody = adapted(recognizer, statistics_of(features, []))
    words = language.of(folder, config.vocabulary, lm)
    chosen = choose(nobody, backend, beam, words)  # says at once what cannot be
    check_weighed(lm, chosen.name, chosen.beam.weighs_words)

    def own(path: Path) -> StreamingRecognizer:
        with closing(stream(path)) as pieces:
            statistics = statistics_of(features, [_readable(pieces)])
        return choose(adapted(recognizer, statistics), backend, beam, words)

    return own


def _readable(pieces: Iterable[Samples]) -> Iterator[Samples]:
    """Yield a file's pieces as far as it can be read; who reads it again hears of the rest."""
    with suppress(AudioError):
        yield from pieces


def transcribe_files(
    listener: Callable[[Path], StreamingRecognizer],
    files: Sequence[Path],
    as_json: bool,
    out: TextIO,
    complain: Callable[[AudioError], None],
    vad: Vad | None = None,
) -> bool:
    """Write the text of files to `out` as it is decided; return whether every file was whole.

    Args:
        listener: gives the recogniser that hears a file, as `recognizer_of_each` does.
        files: in the order in which they are written.
        as_json: write one JSON object per file, on a line of its own when the file is done, with
            file, text, duration (seconds), characters (text, time in seconds) and utterances (text,
            start and end in seconds: the times of the first and the last character).
        out: where text goes; flushed at each character.
        complain: called with what is wrong with a file, in whose place the next one follows.
        vad: what hears the files too, and has a say in where utterances end.
    """
    whole = True
    for path in files:
        try:
            online = listener(path)
            with closing(stream(path)) as pieces:
                if as_json:
                    _write_json(online, path, pieces, out, vad)
                else:
                    _write_text(online, path if len(files) > 1 else None, pieces, out, vad)
        except AudioError as error:
            complain(error)
            whole = False
    return whole


def _write_text(
    online: StreamingRecognizer,
    header: Path | None,
    pieces: Iterator[Samples],
    out: TextIO,
    vad: Vad | None,
) -> None:
    first = next(pieces)  # before the header, which a file that cannot be opened does not get
    if header is not None:
        out.write(f"==> {header} <==\n")
    try:
        for written in characters(online, chain([first], pieces), vad):
            if written:
                out.write("".join(character.text for character in written))
                out.flush()
    finally:
        out.write("\n")
        out.flush()


def _write_json(
    online: StreamingRecognizer, path: Path, pieces: Iterator[Samples], out: TextIO, vad: Vad | None
) -> None:
    count = 0

    def counted() -> Iterator[Samples]:
        nonlocal count
        for piece in pieces:
            count += len(piece)
            yield piece

    written: list[Character] = []
    utterances: list[dict[str, Any]] = []
    begun = 0  # characters before the utterance that goes on
    for heard in listen(online, counted(), vad=vad):
        written += heard.characters
        if heard.endpoint:
            utterances.append(_utterance(written[begun:]))
            begun = len(written)
    if begun < len(written):
        utterances.append(_utterance(written[begun:]))
    content = {
        "file": str(path),
        "text": _text(written),
        "duration": round(count / SAMPLE_RATE, 3),
        "characters": [{"text": one.text, "time": one.time} for one in written],
        "utterances": utterances,
    }
    out.write(json.dumps(content, ensure_ascii=False) + "\n")
    out.flush()


def _utterance(spoken: list[Character]) -> dict[str, Any]:
    return {"text": _text(spoken).strip(), "start": spoken[0].time, "end": spoken[-1].time}


def _text(characters: list[Character]) -> str:
    return "".join(character.text for character in characters)
