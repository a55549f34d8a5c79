"""The parameters of Deepgram's `/v1/listen`."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cortado.model.audio.frames import Channel
from cortado.model.streaming.options import MAX_ALTERNATIVES, MAX_PHRASE, MAX_PHRASES
from cortado.server.doors.deepgram.messages import Warning
from cortado.server.protocol.messages import (
    MAX_SAMPLE_RATE,
    MAX_SILENCE_MS,
    MIN_SAMPLE_RATE,
    MIN_SILENCE_MS,
    SAMPLE_BYTES,
)
from cortado.server.protocol.parsing import MAX_WARNINGS, QUOTED, UNWEIGHED, quoted

ENCODINGS = {  # ours for each of theirs
    "linear16": "pcm_s16le",
    "linear32": "pcm_f32le",
    "mulaw": "mulaw",
    "alaw": "alaw",
    "opus": "opus",
    "ogg-opus": "ogg",
    "flac": "flac",
}
EFFECTIVE = {  # parameters, and what they do; docs/doors.md says more
    "encoding": f"of the audio: {', '.join(ENCODINGS)}; without it the data says what it is",
    "sample_rate": "of a raw encoding, in Hz",
    "channels": "of a raw encoding, or of live audio with multichannel; else they are mixed to one",
    "multichannel": "whether each channel is heard and written for itself",
    "interim_results": "live: whether the growing text of an utterance is sent",
    "vad_events": "live: whether the start of an utterance is told",
    "utterance_end_ms": "live: after how much silence behind a word the end of speech is told",
    "endpointing": "live: after how many ms of silence an utterance ends; false: never",
    "keyterm": "a phrase that is likely to be said; may be given again",
    "keywords": "the same; the number behind a colon has no effect",
    "alternatives": "how many texts a result has at most, up to 10: what was written, then others",
    "utterances": "of a file: whether its utterances are listed",
    "punctuate": "whether a word comes as punctuated_word, too: the same, without punctuation",
    "paragraphs": "of a file: whether its text comes in paragraphs, too",
    "smart_format": "the same as punctuate and paragraphs",
}
PHRASES = ("keyterm", "keywords")
PUNCTUATION = ("punctuate", "smart_format")
OF_LIVE_AUDIO = ("interim_results", "vad_events", "utterance_end_ms", "endpointing")
OF_A_FILE = ("utterances", "paragraphs")
MAX_CHANNELS = 8
UTTERANCE_END_MS = 1000, 5000  # the least and the most that Deepgram takes
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
OWN = "it has no effect: the audio says its own"
OFF = ("false", "0", "")  # what asks for nothing


@dataclass
class Parameters:
    """What a client asks for, and what it asks for in vain."""

    encoding: str | None = None  # one of ours; None for what the data says
    sample_rate: int = 16_000
    channels: int = 1
    has_channels: bool = False  # or 1 is taken for granted
    multichannel: bool = False
    interim_results: bool = False
    endpoints: bool = True
    silence_ms: int | None = None  # that ends an utterance; None for the recogniser's own rules
    utterance_end: float | None = None  # seconds behind a word at which the end of speech is told
    vad_events: bool = False
    utterances: bool = False  # of a file
    paragraphs: bool = False  # of a file
    punctuated: bool = False  # words come twice, as clients that ask for punctuation read them
    alternatives: int = 1  # texts of a result
    phrases: tuple[str, ...] = ()  # that are expected
    warnings: list[Warning] = field(default_factory=list)

    @property
    def raw(self) -> bool:
        """Whether the audio has a raw encoding."""
        return self.encoding in SAMPLE_BYTES

    @property
    def others(self) -> int:
        """Alternatives of each word that so many texts need."""
        return self.alternatives if self.alternatives > 1 else 0

    def separate(self, channels: int) -> Sequence[Channel | None]:
        """Return each of so many channels, or None alone where they are mixed."""
        return [Channel(k, channels) for k in range(channels)] if self.multichannel else [None]

    def require_channels(self) -> None:
        """Expect the number of channels beside `multichannel`.

        Raises: ValueError if there is none.
        """
        if self.multichannel and not self.has_channels:
            raise ValueError("channels: expected a number beside multichannel, got none")

    def warn(self, parameter: str, message: str) -> None:
        """Answer a parameter with a warning."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(Warning(parameter=parameter, message=message))


def read(
    query: Iterable[tuple[str, str]], *, live: bool, weighs_phrases: bool = True
) -> Parameters:
    """Return the parameters of an address, for live audio or for a file.

    Without `weighs_phrases` phrases have no effect.

    Raises: ValueError if one of them cannot be understood, or one is missing.
    """
    query = [(name, value) for name, value in query if value]  # an empty one asks for nothing
    found = Parameters(phrases=_phrases(query))
    if not weighs_phrases:
        found.phrases = ()
        for name in sorted({name for name, _ in query}.intersection(PHRASES)):
            found.warn(name, UNWEIGHED)
    given = {name: value for name, value in query if name not in PHRASES}
    for name in OF_A_FILE if live else OF_LIVE_AUDIO:
        if given.get(name, "").lower() not in OFF:
            found.warn(name, f"it has no effect on {'live audio' if live else 'a file'}")
    encoding = given.pop("encoding", None)
    if encoding is not None:
        if encoding not in ENCODINGS:
            raise ValueError(f"encoding: expected {', '.join(ENCODINGS)}, got {quoted(encoding)}")
        found.encoding = ENCODINGS[encoding]
    if found.raw and "sample_rate" not in given:
        raise ValueError(f"sample_rate: expected a number beside encoding {encoding}, got none")
    rate = given.pop("sample_rate", "")
    if rate and not found.raw:
        found.warn("sample_rate", OWN)
    if encoding is not None and not (live or found.raw):
        found.warn("encoding", OWN)
    if found.raw:
        found.sample_rate = _number("sample_rate", rate, MIN_SAMPLE_RATE, MAX_SAMPLE_RATE)
    found.has_channels = "channels" in given
    found.channels = _number("channels", given.pop("channels", "1"), 1, MAX_CHANNELS)
    found.interim_results = _boolean("interim_results", given)
    found.vad_events = _boolean("vad_events", given)
    found.utterances = _boolean("utterances", given)
    smart = given.get("smart_format", "").lower() not in OFF
    found.paragraphs = _boolean("paragraphs", given) or smart
    found.alternatives = _number(
        "alternatives", given.pop("alternatives", "1"), 1, MAX_ALTERNATIVES
    )
    found.multichannel = _boolean("multichannel", given)
    if found.has_channels and not (found.raw or (live and found.multichannel)):
        found.warn("channels", OWN)
    if found.multichannel and found.raw:
        found.require_channels()
    if found.multichannel and encoding == "opus" and found.channels > 2:
        raise ValueError(f"channels: expected 1 or 2 of encoding opus, got {found.channels}")
    _utterances(found, given, live=live)
    found.punctuated = any(given.get(name, "").lower() not in OFF for name in PUNCTUATION)
    for name, value in given.items():
        if value.lower() not in OFF and (name, value[:2].lower()) != ("language", "en"):
            found.warn(name[:QUOTED], _why(name, value))
    return found


def _phrases(query: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the phrases of `keyterm` and `keywords`."""
    found = []
    for name, value in query:
        if name in PHRASES:
            text, colon, intensity = value.rpartition(":") if name == "keywords" else ("", "", "")
            found.append(text if colon and _is_number(intensity) else value)
    if len(found) > MAX_PHRASES:
        raise ValueError(f"keyterm: expected at most {MAX_PHRASES}, got {len(found)}")
    if longest := [one for one in found if len(one) > MAX_PHRASE]:
        got = quoted(longest[0])
        raise ValueError(f"keyterm: expected at most {MAX_PHRASE} characters, got {got}")
    return tuple(found)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _utterances(found: Parameters, given: dict[str, str], *, live: bool) -> None:
    """Take what says where utterances end out of `given`."""
    endpointing = given.pop("endpointing", "")
    found.endpoints = endpointing.lower() not in ("false", "0")
    if endpointing.lower() not in ("", "true", "false", "0"):
        asked = _number("endpointing", endpointing, 1, MAX_SILENCE_MS)
        found.silence_ms = max(asked, MIN_SILENCE_MS)
        if live and asked < MIN_SILENCE_MS:  # on a file it has no effect at all
            found.warn("endpointing", f"utterances end after {MIN_SILENCE_MS} ms: {asked} are less")
    gap = given.pop("utterance_end_ms", "")
    if gap.lower() not in OFF:
        found.utterance_end = _number("utterance_end_ms", gap, *UTTERANCE_END_MS) / 1000


def _why(name: str, value: str) -> str:
    """Return why a parameter has no effect."""
    if name == "model":
        return f"{value[:QUOTED]} is not here; the model of this server writes the text"
    if name == "language":
        return "the model of this server knows English only"
    if name in PUNCTUATION:
        return "the text has no punctuation: punctuated_word is the word"
    return "it has no effect here"


def _number(name: str, value: str, least: int, most: int) -> int:
    if re.fullmatch("[0-9]{1,9}", value) is None or not least <= int(value) <= most:
        raise ValueError(f"{name}: expected a number from {least} to {most}, got {quoted(value)}")
    return int(value)


def _boolean(name: str, given: dict[str, str]) -> bool:
    """Take a parameter that is true or false out of `given`; false if it is not there."""
    value = given.pop(name, "false")
    if value.lower() not in BOOLEANS:
        raise ValueError(f"{name}: expected true or false, got {quoted(value)}")
    return BOOLEANS[value.lower()]
