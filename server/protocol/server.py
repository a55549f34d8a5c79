"""One conversation on the server's side, without any socket, clock or model.

It is made as python-websockets' `Protocol` is. A shell moves messages between it, a connection and
a stream of the engine, and says what time it is:

    what the client sends    `receive_data`, then `events_received` and `events_handled`
    what the engine writes   `send_characters`, `send_endpoint`, `send_final`, `send_suspended`
    what the client is sent  `data_to_send` and `data_sent`, until `close_expected`
    time                     `timer`, then `handle_timer`

A conversation that is over has an `ending`. The shell then detaches the stream if
`detach_expected`, and calls `release`; what is left and the error are sent after that.
"""

from cortado.server.protocol.deadlines import Deadlines, too_long
from cortado.server.protocol.events import (
    DISCONNECTED,
    FINAL,
    LOST,
    SUSPENDED,
    Audio,
    Close,
    Event,
    ServerFacts,
    State,
)
from cortado.server.protocol.limits import Limits
from cortado.server.protocol.messages import (
    CLOSE_CODES,
    DEFAULT_SAMPLE_RATE,
    Chars,
    ClientMessage,
    Endpoint,
    Error,
    ErrorCode,
    Final,
    ProtocolError,
    Ready,
    Resume,
    ServerMessage,
    Start,
    Suspend,
    Suspended,
    parse_client,
)
from cortado.server.protocol.pcm import PcmDecoder
from cortado.server.protocol.recording import Recording
from cortado.server.protocol.send_queue import SendQueue
from cortado.server.protocol.transcript import ResumePoint, Transcript

BURST_SECONDS = 1.0  # whose messages may come at once


class ServerProtocol:
    """The order, the limits, the deadlines and the outgoing queue of one conversation."""

    def __init__(self, limits: Limits, facts: ServerFacts, now: float) -> None:
        self.state = State.OPENING
        self.ending: str | None = None  # how the conversation has ended: see `events`, or a code
        self.error: Error | None = None  # the last message, if the ending is a code
        self.start: Start | None = None  # how the audio is read, once that is accepted
        self.token: str | None = None  # under which the client may come back
        self.received = 0  # samples, at the rate of `start`
        self.recording: Recording | None = None
        self.facts, self._limits = facts, limits
        self._deadlines = Deadlines(limits, now)
        self._due = now  # time that the messages so far have taken, at the rate allowed
        self._events: list[Event] = []
        self._active = False  # audio has come that is not handled yet
        self._decoder = PcmDecoder("pcm_s16le")
        self._transcript = Transcript(limits.transcript_characters)
        self._queue = SendQueue(limits.outbox_characters)
        self._finished = False  # the last message of a stream without error is in the queue
        self._overflowed = False  # something did not fit into the queue: nothing may follow it
        self._in_flight: ServerMessage | None = None
        self._eof = False  # the client reads no more

    @property
    def duration(self) -> float:
        """Seconds of audio received."""
        return self.received / self.start.sample_rate if self.start else 0.0

    @property
    def characters(self) -> int:
        """Characters of the stream."""
        return self._transcript.characters

    # ---- what the client sends

    def pause(self, now: float) -> float:
        """Return for how many seconds nothing is to be read, since the client has sent so much."""
        return max(0.0, self._due - now - BURST_SECONDS)

    def receive_data(self, data: str | bytes, now: float) -> None:
        """Receive a text or binary message; `events_received` says what it means.

        What came before has to be handled: no more than one message waits here.
        """
        assert not self._deadlines.handling, "expected the last message to be handled"
        if self.ending is not None:
            return
        self._due = max(self._due, now) + 1 / self._limits.max_messages_per_second
        try:
            self._events.append(self._event(data))
        except ProtocolError as error:
            self.fail(error.code, error.message)
            return
        self._deadlines.handling = True
        if isinstance(data, bytes):
            self._active = len(data) > 0
            if self.recording:
                self.recording.audio(data, now)

    def receive_eof(self) -> None:
        """Receive the end of the connection: by the client, by us, or lost."""
        self._eof = True
        self._over(DISCONNECTED)
        if self.state is State.CLOSING:
            self._closed()

    def events_received(self) -> list[Event]:
        """Return what has come; each event is returned once."""
        events, self._events = self._events, []
        return events

    def events_handled(self, now: float) -> None:
        """Expect the next message: what came is handled."""
        self._deadlines.handling = False
        if self._active:
            self._deadlines.expect_audio(now)
            self._active = False

    def _event(self, data: str | bytes) -> Event:
        """Return what a message means at this point of the conversation.

        Raises:
            ProtocolError: it means nothing here.
        """
        _check_size(data, self._limits.max_message_bytes)
        message = data if isinstance(data, bytes) else parse_client(data)
        if self.state is State.DRAINING:
            raise _unexpected("nothing after end", message)
        if self.state is State.OPENING:
            if not isinstance(message, Start | Resume):
                raise _unexpected("start or resume", message)
            self.state = State.ACCEPTING
        elif isinstance(message, bytes):
            return self._audio(message)
        elif isinstance(message, Start | Resume):
            raise _unexpected("audio or end", message)
        else:
            self._end(message)
        return message

    def _audio(self, data: bytes) -> Audio:
        samples = self._decoder.decode(data)
        self.received += len(samples)
        if 0 < self._limits.max_stream_seconds < self.duration:
            raise too_long(self._limits)
        return Audio(samples)

    def _end(self, message: ClientMessage) -> None:
        assert self.start is not None
        if isinstance(message, Suspend) and self.start.sample_rate != DEFAULT_SAMPLE_RATE:
            expected = f"expected a stream at {DEFAULT_SAMPLE_RATE} Hz to suspend"
            got = f"one at {self.start.sample_rate} Hz, whose resampler stays with the server"
            raise ProtocolError(ErrorCode.UNSUPPORTED_SAMPLE_RATE, f"{expected}, got {got}")
        self.state = State.DRAINING
        self._deadlines.expect_nothing()

    # ---- what the shell answers

    def accept(self, start: Start, now: float, token: str | None, *, recorded: bool) -> None:
        """Answer `start` with `ready`, and with a token if the client may come back."""
        self._stream(ResumePoint(start, 0, self._transcript, 0.0), now, token)
        if recorded:
            self.recording = Recording(start, self._limits.record_seconds, now)

    def resume(self, resume: Resume, point: ResumePoint, now: float, token: str | None) -> None:
        """Answer `resume` with `ready` and with what the client has missed."""
        self._transcript = point.transcript
        self._stream(point, now, token)
        for message in point.missed(resume):
            self._queue.add(message, forced=True)

    def _stream(self, point: ResumePoint, now: float, token: str | None) -> None:
        assert self.state is State.ACCEPTING
        self.state, self.token = State.STREAMING, token
        self.start, self.received = point.start, point.received
        self._decoder = PcmDecoder(point.start.encoding)
        self._deadlines.expect_audio(now)
        ready = Ready(
            **self.facts._asdict(),
            sample_rate=point.start.sample_rate,
            encoding=point.start.encoding,
            received=point.received,
            token=token,
        )
        self._queue.add(ready)

    def send_characters(self, text: str, times: list[float], position: float) -> None:
        """Send characters that are decided, which rest on `position` seconds of audio."""
        self._transcript.add(text, times)
        if self.recording:
            self.recording.digest.characters(text, times)
        self._send(Chars(text=text, times=times, position=round(position, 3)))

    def send_endpoint(self, utterance: int, start: float, end: float, position: float) -> None:
        """Send that an utterance has ended, which was decided at `position` seconds."""
        endpoint = Endpoint(utterance=utterance, start=start, end=end, position=round(position, 3))
        self._transcript.add_endpoint(endpoint)
        if self.recording:
            self.recording.digest.endpoint(start, end)
        self._send(endpoint)

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

    def _send(self, message: ServerMessage) -> None:
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
            self.error = Error(code=code, message=message)
        self._over(code.value)

    def _over(self, ending: str) -> None:
        """Note how the conversation ended; the first ending counts."""
        if self.ending is None:
            self.ending = ending
            self._deadlines.stop()

    def detach_expected(self) -> bool:
        """Return whether the stream is to go on without this connection, which seems lost."""
        return self.state is State.STREAMING and self.token is not None and self.ending in LOST

    def resume_point(self, received: int, position: float) -> ResumePoint:
        """Return where another connection goes on with a stream that was detached.

        `received` samples of it were taken by the engine, and the text rests on `position` seconds.
        """
        assert self.start is not None
        return ResumePoint(self.start, received, self._transcript, position)

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
        return Close(CLOSE_CODES[self.error.code], self.error.code) if self.error else Close(1000)

    # ---- what the client is sent

    def data_to_send(self, now: float) -> str | None:
        """Return the next message to the client; None if there is none, or one is being sent."""
        if self._in_flight is not None or self.state is State.CLOSED:
            return None
        self._in_flight = self._queue.pop()
        if self._in_flight is None:
            return None
        if self.ending is None:
            self._deadlines.send(now)
        return self._in_flight.model_dump_json(exclude_none=True)

    def data_sent(self) -> None:
        """Note that there is room for the next message: the last is sent."""
        message, self._in_flight = self._in_flight, None
        self._deadlines.sent()
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


def _check_size(data: str | bytes, most: int) -> None:
    """Raise `ProtocolError` if a message has more bytes than `most`."""
    size = len(data if isinstance(data, bytes) else data.encode(errors="surrogatepass"))
    if size > most:
        message = f"expected messages of at most {most} bytes, got {size}"
        raise ProtocolError(ErrorCode.MESSAGE_TOO_BIG, message)


def _unexpected(expected: str, message: ClientMessage | bytes) -> ProtocolError:
    got = "audio" if isinstance(message, bytes) else message.type
    return ProtocolError(ErrorCode.UNEXPECTED_MESSAGE, f"expected {expected}, got {got}")
