"""One conversation on the server's side, without any socket, clock or model.

It is made as python-websockets' `Protocol` is. A shell moves messages between it, a connection and
a stream of the engine, and says what time it is:

    what the client sends    `receive_data`, then `events_received` and `events_handled`
    what the engine writes   `send_characters`, `send_endpoint`, `send_flushed`, `send_processed`,
                             `send_acknowledged`, `send_final`, `send_suspended`
    what the client is sent  `data_to_send` and `data_sent`, until `close_expected`
    time                     `timer`, then `handle_timer`

What the messages look like on the wire is the dialect's.

A conversation that is over has an `ending`. The shell then detaches the stream if
`detach_expected`, and calls `release`; what is left and the error are sent after that.
"""

from collections import deque
from collections.abc import Iterator

from cortado.model.captions import Placed
from cortado.server.protocol.deadlines import Deadlines, too_long
from cortado.server.protocol.dialect import Dialect, Read, Reply
from cortado.server.protocol.errors import REASONS
from cortado.server.protocol.events import (
    DISCONNECTED,
    FINAL,
    LOST,
    SUSPENDED,
    Audio,
    Close,
    Event,
    Processed,
    ServerFacts,
    State,
    WhenProcessed,
)
from cortado.server.protocol.limits import Limits
from cortado.server.protocol.messages import (
    DEFAULT_SAMPLE_RATE,
    Acknowledged,
    Chars,
    ClientMessage,
    End,
    Endpoint,
    Error,
    ErrorCode,
    Final,
    Flush,
    Flushed,
    KeepAlive,
    ProtocolError,
    Ready,
    Resume,
    Start,
    Suspend,
    Suspended,
)
from cortado.server.protocol.pcm import PcmDecoder
from cortado.server.protocol.recording import Recording
from cortado.server.protocol.send_queue import Queued, SendQueue
from cortado.server.protocol.transcript import ResumePoint, Transcript

LEAST_AUDIO = 0.02  # of the idle time, in audio, or a byte now and then would hold a stream


class ServerProtocol:
    """The order, the limits, the deadlines and the outgoing queue of one conversation."""

    def __init__(self, limits: Limits, now: float, dialect: Dialect) -> None:
        """Begin with a client that speaks `dialect`."""
        self.state = State.OPENING
        self.ending: str | None = None  # how the conversation has ended: see `events`, or a code
        self.error: Error | None = None  # the last message, if the ending is a code
        self.start: Start | None = None  # how the audio is read, once that is accepted
        self.token: str | None = None  # under which the client may come back
        self.received = 0  # samples, at the rate of `start`
        self.recording: Recording | None = None
        self._limits = limits
        self._deadlines = Deadlines(limits, now)
        self._credited = 0  # samples received when the client last got time for more
        self._is_kept = False  # the message that is being handled asks for more time
        self.dialect = dialect
        self._incoming: Iterator[Read] = iter(())  # of the message that is being handled
        self._arrived = now  # when it came
        self._decoder = PcmDecoder("pcm_s16le")
        self._transcript = Transcript(limits.transcript_characters)
        self._queue = SendQueue(limits.outbox_characters)
        self._finished = False  # the last message of a stream without error is in the queue
        self._overflowed = False  # something did not fit into the queue: nothing may follow it
        self._in_flight: Queued | None = None  # the message that is being sent
        self._texts = deque[str]()  # of it, that are left
        self._sending = False  # one of its texts
        self._flushed = False  # the stream was flushed at least once
        self._was_suspended = False  # the stream came as a `state`
        self._eof = False  # the client reads no more
        self._known = 0, 0  # characters and utterances that a client which came back has
        for text in self.dialect.greeting():
            self._queue.add(Reply(text))

    @property
    def duration(self) -> float:
        """Seconds of audio received."""
        return self.received / self.start.sample_rate if self.start else 0.0

    @property
    def characters(self) -> int:
        """Characters of the stream."""
        return self._transcript.characters

    # ---- what the client sends

    def receive_data(self, data: str | bytes, now: float) -> None:
        """Receive a text or binary message; `events_received` says what it means.

        What came before has to be handled: no more than one message waits here.
        """
        assert not self._deadlines.handling, "expected the last message to be handled"
        if self.ending is not None:
            return
        size = len(data if isinstance(data, bytes) else data.encode(errors="surrogatepass"))
        if size > (most := self._limits.max_message_bytes):
            message = f"expected messages of at most {most} bytes, got {size}"
            self.fail(ErrorCode.MESSAGE_TOO_BIG, message)
            return
        self._deadlines.handling = True
        self._incoming, self._arrived = self.dialect.read(data), now

    def receive_eof(self) -> None:
        """Receive the end of the connection: by the client, by us, or lost."""
        self._eof = True
        self._over(DISCONNECTED)
        if self.state is State.CLOSING:
            self._closed()

    def events_received(self) -> Iterator[Event]:
        """Yield what the last message asks for; each event is to be handled before the next."""
        try:
            for message in self._incoming:
                if self.ending is not None:
                    return
                if isinstance(message, Reply):
                    self._queue.add(message)
                else:
                    yield self._event(message)
        except ProtocolError as error:
            self.fail(error.code, error.message)

    def events_handled(self, now: float) -> None:
        """Expect the next message: what came is handled."""
        self._deadlines.handling = False
        rate = self.start.sample_rate if self.start else 0
        enough = LEAST_AUDIO * self._limits.idle_timeout_seconds * rate
        is_heard = self._is_kept or self.received - self._credited > enough
        if is_heard and self.state is State.STREAMING:
            self._deadlines.expect_audio(now)
            self._credited, self._is_kept = self.received, False

    def _event(self, message: ClientMessage | WhenProcessed | bytes) -> Event:
        """Return what a message means at this point of the conversation.

        Raises: ProtocolError if it means nothing here.
        """
        if self.state is State.DRAINING:
            raise _unexpected("nothing after end", message)
        if self.state is State.OPENING:
            if not isinstance(message, Start | Resume):
                raise _unexpected("start or resume", message)
            self.state = State.ACCEPTING
        elif isinstance(message, bytes):
            return self._audio(message)
        elif isinstance(message, Start | Resume):
            raise _unexpected("audio, flush, keep_alive, suspend or end", message)
        elif isinstance(message, Flush):
            self._flush()
        elif isinstance(message, End | Suspend):
            self._end(message)
        self._is_kept |= isinstance(message, Flush | KeepAlive)
        return message

    def _audio(self, data: bytes) -> Audio:
        if self.recording:
            self.recording.audio(data, self._arrived)
        samples = self._decoder.decode(data)
        self.received += len(samples)
        if 0 < self._limits.max_stream_seconds < self.duration:
            raise too_long(self._limits)
        return Audio(samples)

    def _flush(self) -> None:
        if self.token is not None:
            expected = "expected flush in a stream that is not kept"
            raise ProtocolError(ErrorCode.UNEXPECTED_MESSAGE, f"{expected}, got it in one that is")
        if self._was_suspended:  # its phrases and rules are in its state alone
            expected = "expected flush in a stream that was never suspended"
            raise ProtocolError(ErrorCode.UNEXPECTED_MESSAGE, f"{expected}, got it in one that was")
        self._flushed = True
        if self.recording:
            self.recording.drop()

    def _end(self, message: End | Suspend) -> None:
        assert self.start is not None
        if isinstance(message, Suspend) and self.start.sample_rate != DEFAULT_SAMPLE_RATE:
            expected = f"expected a stream at {DEFAULT_SAMPLE_RATE} Hz to suspend"
            got = f"one at {self.start.sample_rate} Hz, whose resampler stays with the server"
            raise ProtocolError(ErrorCode.UNSUPPORTED_SAMPLE_RATE, f"{expected}, got {got}")
        if isinstance(message, Suspend) and self._flushed:
            expected = "expected a stream without flush to suspend"
            raise ProtocolError(ErrorCode.UNEXPECTED_MESSAGE, f"{expected}, got one with it")
        self.state = State.DRAINING
        self._deadlines.expect_nothing()

    # ---- what the shell answers

    def accept(
        self, start: Start, facts: ServerFacts, now: float, token: str | None, *, recorded: bool
    ) -> None:
        """Answer `start` with `ready`, and with a token if the client may come back."""
        self._transcript = Transcript(
            self._limits.transcript_characters, alternatives=start.alternatives
        )
        self._stream(ResumePoint(start, 0, self._transcript, 0.0), facts, now, token)
        if recorded:
            self.recording = Recording(start, self._limits.record_seconds, now)

    def resume(
        self,
        resume: Resume,
        point: ResumePoint,
        facts: ServerFacts,
        now: float,
        token: str | None,
    ) -> None:
        """Answer `resume` with `ready` and with what the client has missed."""
        self._transcript = point.transcript
        self._was_suspended = resume.state is not None
        if resume.token is not None:
            self._known = resume.characters, resume.utterances
        self._stream(point, facts, now, token)
        self._queue.add_missed(point.missed(resume))

    def _stream(
        self, point: ResumePoint, facts: ServerFacts, now: float, token: str | None
    ) -> None:
        assert self.state is State.ACCEPTING
        self.state, self.token = State.STREAMING, token
        self.start, self.received, self._credited = point.start, point.received, point.received
        self._decoder = PcmDecoder(point.start.encoding)
        self._deadlines.expect_audio(now)
        ready = Ready(
            **facts._asdict(),
            sample_rate=point.start.sample_rate,
            encoding=point.start.encoding,
            received=point.received,
            token=token,
        )
        self._queue.add(ready)

    def send_characters(
        self,
        text: str,
        times: list[float],
        confidences: list[float],
        position: float,
        alternatives: Placed = (),
    ) -> None:
        """Send characters that are decided, which rest on `position` seconds of audio.

        The `alternatives` of words that end with them come with their utterance's end.
        """
        self._transcript.add(text, times, confidences, alternatives)
        if self.recording:
            self.recording.digest.characters(text, times)
        after = self._transcript.characters - len(text)
        if known := min(max(self._known[0] - after, 0), len(text)):  # of a stream gone on early
            text, times, confidences = text[known:], times[known:], confidences[known:]
        if text:
            position = round(position, 3)
            self._send(Chars(text=text, times=times, confidences=confidences, position=position))

    def send_endpoint(self, utterance: int, start: float, end: float, position: float) -> None:
        """Send that an utterance has ended, which was decided at `position` seconds."""
        endpoint = Endpoint(utterance=utterance, start=start, end=end, position=round(position, 3))
        if self.recording:
            self.recording.digest.endpoint(start, end)
        endpoint = self._transcript.add_endpoint(endpoint)
        if utterance >= self._known[1]:
            self._send(endpoint)

    def send_flushed(self) -> None:
        """Send that all text of the audio before `flush` was sent."""
        words, texts = self._transcript.end_utterance()
        self._send(Flushed(position=round(self.duration, 3), words=words, texts=texts))

    def send_processed(self, awaits_commit: bool) -> None:
        """Send that all whole steps of the audio so far are done, where the dialect says so."""
        self._send(Processed(awaits_commit))

    def send_acknowledged(self, received: int) -> None:
        """Send that the stream is stored as it was after so many samples, unless it has ended."""
        if self.state is State.STREAMING and self.ending is None:
            self._send(Acknowledged(received=received))

    def send_final(self) -> None:
        """Send the transcript: no characters follow."""
        self._finish(self._transcript.final(round(self.duration, 3)))
        if self.recording and self._finished:
            self.recording.finish()

    def send_suspended(self, state: str, received: int, characters: int) -> None:
        """Send the stream itself, as `resume` takes it."""
        self._finish(Suspended(state=state, received=received, characters=characters))

    def _finish(self, message: Final | Suspended) -> None:
        if self.ending is None:
            self._finished = True
            self._send(message)

    def _send(self, message: Queued) -> None:
        if self._overflowed:
            return
        try:
            self._queue.add(message)
        except ProtocolError as error:
            self._overflowed = True
            self.fail(error.code, error.message)

    # ---- how it ends

    def fail(self, code: ErrorCode, message: str) -> None:
        """End the conversation with an error, unless it has ended or all is said but not read."""
        if self.ending is None and not self._finished:
            retry_after = REASONS[code].retry_after
            self.error = Error(code=code, message=message, retry_after=retry_after)
        self._over(code.value)

    def _over(self, ending: str) -> None:
        """Note how the conversation ended; the first ending counts."""
        if self.ending is None:
            self.ending = ending
            self._deadlines.stop()

    def detach_expected(self) -> bool:
        """Return whether the stream is to go on without this connection, which seems lost."""
        return self.state is State.STREAMING and self.token is not None and self.ending in LOST

    def resume_point(self, received: int, position: float, *, is_whole: bool = True) -> ResumePoint:
        """Return where another connection goes on with a stream that was detached.

        `received` samples of it were taken by the engine, and the text rests on `position` seconds.
        It `is_whole` unless the stream goes on here as well, or the client has characters from
        before a server was killed that are not written again yet.
        """
        assert self.start is not None
        is_whole = is_whole and self._transcript.characters >= self._known[0]
        return ResumePoint(self.start, received, self._transcript, position, is_whole)

    def release(self, now: float) -> None:
        """Send what is left and the error: the stream is detached, or its slot given back."""
        assert self.ending is not None
        if self.recording:
            self.recording.drop()
        self.state = State.CLOSING
        self._deadlines.close(now)
        if self.error:
            self._queue.add(self.error)
        if self._eof:
            self._closed()

    def _closed(self) -> None:
        self.state = State.CLOSED
        self._deadlines.stop()

    def close_expected(self) -> Close | None:
        """Return how the connection is to be closed, once everything is sent."""
        if self.state is not State.CLOSING or self._queue or self._in_flight:
            return None
        if self.error is None:
            return Close(1000)
        return Close(REASONS[self.error.code].close, self.error.code)

    # ---- what the client is sent

    def data_to_send(self, now: float) -> str | None:
        """Return the next text to the client; None if there is none, or one is being sent."""
        if self._sending or self.state is State.CLOSED:
            return None
        while not self._texts:
            self._in_flight = message = self._queue.pop()
            if message is None:
                return None
            if isinstance(message, Reply):
                self._texts.append(message.text)
            else:
                self._texts.extend(self.dialect.write(message))
            if not self._texts:
                self._sent()
        self._sending = True
        if self.ending is None:
            self._deadlines.send(now)
        return self._texts.popleft()

    def data_sent(self) -> None:
        """Note that there is room for the next text: the last is sent."""
        self._sending = False
        self._deadlines.sent()
        if not self._texts:
            self._sent()

    def _sent(self) -> None:
        """Note that all texts of a message are sent."""
        message, self._in_flight = self._in_flight, None
        if isinstance(message, Final | Suspended):
            self._over(FINAL if isinstance(message, Final) else SUSPENDED)

    # ---- time

    def timer(self, now: float) -> float:
        """Return when `handle_timer` is to be called, whatever happens until then."""
        return self._deadlines.next(now)

    def handle_timer(self, now: float) -> None:
        """Give the client up if it has run out of time."""
        if self._deadlines.closed(now):
            self._closed()
        elif error := self._deadlines.expired(now):
            self.fail(error.code, error.message)


def _unexpected(expected: str, message: ClientMessage | WhenProcessed | bytes) -> ProtocolError:
    # the wish for `Processed` comes with audio
    got = "audio" if isinstance(message, bytes | WhenProcessed) else message.type
    return ProtocolError(ErrorCode.UNEXPECTED_MESSAGE, f"expected {expected}, got {got}")
