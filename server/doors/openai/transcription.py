"""OpenAI's transcription of a file: what is asked for, and the answers."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from cortado.model import captions
from cortado.model.emission import Character
from cortado.server.doors.openai.delta import Deltas
from cortado.server.doors.openai.messages import (
    Duration,
    LogProb,
    Piece,
    TextDelta,
    TextDone,
    Transcription,
    VerboseTranscription,
)
from cortado.server.doors.openai.prompt import expected
from cortado.server.doors.upload import Heard
from cortado.server.doors.words import SentWord, text_of
from cortado.server.protocol.messages import Chars, ServerMessage
from cortado.server.protocol.parsing import QUOTED, UNWEIGHED, quoted

Format = Literal["json", "text", "srt", "vtt", "verbose_json"]
TEXT_TYPES = {"text": "text/plain", "srt": "application/x-subrip", "vtt": "text/vtt"}
PHRASES = ("prompt", "keywords")
EFFECTIVE = {
    *("file", "model", "response_format", "timestamp_granularities", "stream", "include"),
    *("language", *PHRASES),
}


@dataclass(frozen=True)
class Wanted:
    """What a client asks for, and what it asks for in vain."""

    format: Format = "json"
    stream: bool = False
    granularities: Sequence[str] = ("segment",)
    logprobs: bool = False
    phrases: tuple[str, ...] = ()  # that are expected
    warnings: list[str] = field(default_factory=list)


def read(fields: Mapping[str, Sequence[str]], model: str, *, weighs_phrases: bool = True) -> Wanted:
    """Return what the fields of a form ask for; the server's model has the name `model`.

    Where it does not weigh phrases, a prompt has no effect.

    Raises: ValueError if one of them cannot be understood.
    """
    filled = {name.removesuffix("[]"): list(filter(None, fields[name])) for name in fields}
    given = {name: values for name, values in filled.items() if values}
    name = given.get("response_format", ["json"])[-1]
    if name not in get_args(Format):
        formats = ", ".join(get_args(Format))
        raise ValueError(f"response_format: expected {formats}, got {quoted(name)}")
    granularities = given.get("timestamp_granularities", ("segment",))
    if not {"word", "segment"}.issuperset(granularities):
        raise ValueError("timestamp_granularities: expected word or segment, got another")
    stream = given.get("stream", ["false"])[-1].lower() in ("true", "1")
    warnings = [f"{one[:QUOTED]}: it has no effect here" for one in given if one not in EFFECTIVE]
    if "timestamp_granularities" in given and (stream or name != "verbose_json"):
        warnings.append("timestamp_granularities: there are times in verbose_json, not streamed")
    if stream and name not in ("json", "text"):
        warnings.append(f"response_format: text that is streamed comes as events, not as {name}")
    include, is_text = given.get("include", []), stream or name == "json"
    logprobs = "logprobs" in include and is_text
    if include and not (logprobs and set(include) == {"logprobs"}):
        warnings.append("include: there are logprobs beside json or a streamed text, no more")
    if (asked := given.get("model", [model])[-1]) != model:
        warnings.append(f"model: {asked[:QUOTED]} is not here; {model} writes the text")
    if not (language := given.get("language", ["en"])[-1]).lower().startswith("en"):
        warnings.append(f"language: {language[:QUOTED]} has no effect here; {model} decides")
    phrases: tuple[str, ...] = ()
    if any(one in given for one in PHRASES):
        phrases, why = _phrases(given, weighs_phrases=weighs_phrases)
        warnings += [f"prompt: {why}"] if why else []
    return Wanted(name, stream, granularities, logprobs, phrases, warnings)  # type: ignore[arg-type]


def _phrases(
    given: Mapping[str, Sequence[str]], *, weighs_phrases: bool
) -> tuple[tuple[str, ...], str | None]:
    """Return the phrases of a prompt and keywords, and what of these has no effect."""
    if not weighs_phrases:
        return (), UNWEIGHED
    found = expected("\n".join(given.get("prompt", ())), given.get("keywords", ()))
    return found.phrases, found.without_effect


def answer(wanted: Wanted, heard: Heard, language: str | None) -> str:
    """Return what was heard, in the format that is wanted."""
    text = text_of(heard.words)
    usage = Duration(seconds=heard.duration)
    warnings = wanted.warnings or None
    if wanted.format == "json":
        logprobs = LogProb.of(heard.words, text) if wanted.logprobs else None
        found = Transcription(text=text, logprobs=logprobs, usage=usage, warnings=warnings)
        return found.model_dump_json(exclude_none=True)
    if wanted.format == "text":
        return f"{text}\n"
    if wanted.format in ("srt", "vtt"):
        write = captions.srt if wanted.format == "srt" else captions.vtt
        return write(captions.cues(heard.utterances))
    return VerboseTranscription(
        language=language,
        duration=heard.duration,
        text=text,
        words=[SentWord.of(word) for word in heard.words]
        if "word" in wanted.granularities
        else None,
        segments=_segments(heard) if "segment" in wanted.granularities else None,
        usage=usage,
        warnings=warnings,
    ).model_dump_json(exclude_none=True)


def _segments(heard: Heard) -> list[Piece]:
    return [
        Piece(id=number, start=words[0].start, end=words[-1].end, text=text_of(words))
        for number, words in enumerate(heard.utterances)
    ]


async def streamed(wanted: Wanted, messages: AsyncIterator[ServerMessage]) -> AsyncIterator[str]:
    """Yield the text as server-sent events while it is written."""
    deltas, characters = Deltas(), list[Character]()
    async for message in messages:
        if isinstance(message, Chars) and (found := deltas.take(message.characters())):
            characters += found
            delta = _text(found)
            logprobs = _logprobs(wanted, found, delta)
            yield event(TextDelta(delta=delta, logprobs=logprobs).model_dump(exclude_none=True))
    text = _text(characters)
    done = TextDone(
        text=text,
        logprobs=_logprobs(wanted, characters, text),
        warnings=wanted.warnings or None,
    )
    yield event(done.model_dump(exclude_none=True))


def _text(characters: Iterable[Character]) -> str:
    return "".join(one.text for one in characters)


def _logprobs(wanted: Wanted, characters: Iterable[Character], text: str) -> list[LogProb] | None:
    return LogProb.of(captions.words_of(characters), text) if wanted.logprobs else None


def event(content: object) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"
