"""Deepgram's live transcription, `WS /v1/listen`."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ValidationError

from cortado.model.audio.frames import Channel as AudioChannel
from cortado.model.captions import Word as OwnWord
from cortado.server.doors.audio import decoder
from cortado.server.doors.deepgram.messages import (
    Channel,
    ConfigureFailure,
    Control,
    Error,
    Metadata,
    ModelInfo,
    Results,
    ResultsMetadata,
    SpeechStarted,
    UtteranceEnd,
)
from cortado.server.doors.deepgram.parameters import Parameters
from cortado.server.protocol import messages as own
from cortado.server.protocol.dialect import Dialect, Read, Reply, Written
from cortado.server.protocol.events import Processed, WhenProcessed
from cortado.server.protocol.messages import ErrorCode, ProtocolError
from cortado.server.protocol.parsing import check_fields, quoted
from cortado.server.protocol.words import Segment

LONGEST = 5.0  # seconds of words after which a final result comes within an utterance
CLOSE = '{"type":"CloseStream"}'  # which clients once said, and some say, by an empty message
LONGEST_WHOLE = 60.0  # the same with alternatives, which are known when the utterance has ended


@dataclass
class Shared:
    """What the channels of one connection have in common."""

    left: int = 1  # channels that have not ended
    request: str = ""  # the name of the first one's stream
    failed: bool = False


class Live(Dialect):
    """The dialect of one connection, or of one of its channels."""

    def __init__(
        self,
        parameters: Parameters,
        created: datetime,
        channel: AudioChannel | None = None,
        shared: Shared | None = None,
    ) -> None:
        """Hear one `channel`, of which there are as many as `shared` says; None for all mixed."""
        self._asked, self._created = parameters, created
        self._channel = (channel.number, channel.of) if channel else (0, 1)
        self._shared = shared or Shared()
        self._start, self._decoder = decoder(
            parameters.encoding,
            parameters.sample_rate,
            parameters.channels,
            channel,
            endpoints=parameters.endpoints,
            phrases=parameters.phrases,
            alternatives=parameters.others,
            silence_ms=parameters.silence_ms,
        )
        self._began, self._closed = False, False
        self._digest = hashlib.sha256()
        self._model = ""
        self._segment = Segment()
        self._place = 0.0  # seconds: where the next final result begins
        self._speaking = False  # an utterance has begun
        self._warned = False
        self._sent = 0.0  # seconds of audio
        self._word_end: float | None = None  # of the last word, until the end of speech is told
        self._awaited: float | None = None  # the same, while the audio behind it is processed

    def read(self, data: str | bytes) -> Iterator[Read]:
        """Yield what a message means."""
        if not self._began:
            self._began = True
            yield self._start
        if self._closed:
            return  # such as a KeepAlive of a client's timer: the text is still to come
        if data == b"":
            data = CLOSE
        if isinstance(data, bytes):
            self._digest.update(data)
            for piece in self._decoder.push(data):
                self._sent += len(piece) / self._bytes_a_second
                yield piece
            if self._is_silent(self._sent) and self._awaited is None:
                self._awaited = self._word_end
                yield WhenProcessed()
            return
        kind = _control(data).type
        if kind == "KeepAlive":
            yield own.KeepAlive()
        elif kind == "Finalize":
            yield own.Flush()
        elif kind == "Configure":
            if self._channel[0] == 0:  # one answer, however many channels there are
                refused = ConfigureFailure(request_id=self._shared.request)
                yield Reply(refused.model_dump_json())
        else:
            self._closed = True
            yield from self._decoder.end()
            yield own.End()

    def write(self, message: Written) -> Iterator[str]:
        """Yield a message as Deepgram's clients read it."""
        for one in self._messages(message):
            yield one.model_dump_json(exclude_none=True)

    def close(self) -> None:
        """End the decoder."""
        self._decoder.close()

    def _messages(self, message: Written) -> Iterator[BaseModel]:
        match message:
            case own.Ready():
                self._model = message.model
                self._shared.request = self._shared.request or message.session
            case own.Chars():
                yield from self._characters(message)
            case own.Endpoint():
                yield from self._ended(message)
            case Processed():
                # no word has come since, and none is being weighed
                if self._awaited == self._word_end and not message.awaits_commit:
                    yield from self._speech_ended(self._sent)
                self._awaited = None
            case own.Flushed():
                words = self._segment.take(message.words)
                yield self._final(words, message.position, from_finalize=True)
                yield from self._speech_ended(message.position)
                self._speaking = False
            case own.Final():
                if self._segment:
                    yield self._final(self._segment.take(message.words), message.duration)
                yield from self._speech_ended(message.duration)
                self._shared.left -= 1
                if not self._shared.left:
                    yield self._metadata(message.duration)
            case own.Error():
                if not self._shared.failed:
                    yield Error(variant=message.code, description=self._explained(message))
                self._shared.failed = True

    def _explained(self, error: own.Error) -> str:
        if self._asked.encoding is None and "data that begins with" in error.message:
            return f"{error.message}; raw samples need encoding and sample_rate in the address"
        return error.message

    @property
    def _bytes_a_second(self) -> int:
        return self._start.sample_rate * own.SAMPLE_BYTES[self._start.encoding]

    def _is_silent(self, position: float) -> bool:
        """Return whether so much silence follows the last word that the end of speech is told."""
        gap, end = self._asked.utterance_end, self._word_end
        return gap is not None and end is not None and position - end >= gap

    def _speech_ended(self, position: float) -> Iterator[BaseModel]:
        """Yield the end of speech where `position` is far enough behind it, after its words."""
        if self._is_silent(position):
            assert self._word_end is not None
            if self._segment:
                yield self._final(self._segment.take(), self._word_end)
            yield UtteranceEnd(channel=self._channel, last_word_end=self._word_end)
            self._word_end, self._speaking = None, False

    def _characters(self, message: own.Chars) -> Iterator[BaseModel]:
        letters = [one.time for one in message.characters() if not one.text.isspace()]
        if letters:
            yield from self._speech_ended(letters[0])
            self._word_end = letters[-1]
        self._segment.add(message)
        words = self._segment.words
        if self._asked.vad_events and not self._speaking and words:
            yield SpeechStarted(channel=self._channel, timestamp=words[0].start)
        self._speaking |= bool(words)
        longest = LONGEST_WHOLE if self._asked.others else LONGEST
        if done := self._segment.take_complete(longest):
            yield self._final(done, done[-1].end)
        elif self._asked.interim_results and words:
            yield self._results(words, message.position, is_final=False)

    def _ended(self, message: own.Endpoint) -> Iterator[BaseModel]:
        words = self._segment.take(message.words)
        yield self._final(words, message.position, speech_final=True)
        yield from self._speech_ended(message.position)
        self._speaking = False

    def _final(
        self,
        words: list[OwnWord],
        until: float,
        *,
        speech_final: bool = False,
        from_finalize: bool = False,
    ) -> Results:
        """Return a final result up to so many seconds, where the next begins."""
        found = self._results(words, until, is_final=True)
        found.speech_final, found.from_finalize = speech_final, from_finalize
        self._place = max(self._place, until)
        return found

    def _results(self, words: list[OwnWord], until: float, *, is_final: bool) -> Results:
        start = min([self._place, *(word.start for word in words[:1])])
        warnings = None if self._warned else self._asked.warnings or None
        self._warned = True
        return Results(
            channel_index=self._channel,
            start=round(start, 3),
            duration=round(max(until - start, 0.0), 3),
            is_final=is_final,
            speech_final=False,
            channel=Channel.of(words, self._asked.alternatives, punctuated=self._asked.punctuated),
            metadata=ResultsMetadata(
                request_id=self._shared.request,
                model_info=ModelInfo(name=self._model),
                warnings=warnings,
            ),
        )

    def _metadata(self, duration: float) -> Metadata:
        return Metadata(
            request_id=self._shared.request,
            sha256=self._digest.hexdigest(),
            created=self._created.isoformat(),
            duration=duration,
            channels=self._asked.channels,
            models=[self._model],
            warnings=self._asked.warnings,
        )


def _control(data: str) -> Control:
    """Return what the JSON `data` spells.

    Raises: ProtocolError if it spells nothing that is known.
    """
    check_fields(data)
    try:
        return Control.model_validate_json(data)
    except ValidationError:
        expected = "expected KeepAlive, Finalize, CloseStream, Configure or audio"
        message = f"{expected}, got {quoted(data)}"
        raise ProtocolError(ErrorCode.INVALID_MESSAGE, message) from None
