"""Whatever comes in whatever order, from both sides: a model of the conversation beside it."""

import json

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cortado.server.protocol.errors import REASONS
from cortado.server.protocol.events import Audio, Event, State
from cortado.server.protocol.messages import (
    Chars,
    End,
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
)
from cortado.server.protocol.parsing import parse_server
from cortado.server.protocol.pcm import PcmDecoder
from cortado.server.protocol.server import ServerProtocol
from cortado.server.protocol.transcript import ResumePoint
from cortado.tests.server.protocol.talk import END, FACTS, SUSPEND, protocol

LIMITS = {
    "start_timeout_seconds": 10.0,
    "idle_timeout_seconds": 30.0,
    "send_timeout_seconds": 10.0,
    "max_stream_seconds": 300.0,
    "outbox_characters": 8,
    "transcript_characters": 10**6,
    "max_messages_per_second": 10,
}
TOKEN = "a token"
LAST = (Final, Suspended, Error)

frames = st.one_of(
    st.sampled_from(
        ['{"type":"start","keep":true}', '{"type":"start","encoding":"pcm_f32le"}', END, SUSPEND]
    ),
    st.binary(max_size=40),
    st.text(max_size=40),
    st.dictionaries(
        st.sampled_from(["type", "sample_rate", "encoding", "x"]),
        st.one_of(st.sampled_from(["start", "end", "pcm_s16le"]), st.integers(), st.floats()),
    ).map(json.dumps),
)


class Conversation(RuleBasedStateMachine):
    """One stream, over one connection after another."""

    talk: ServerProtocol

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.point: ResumePoint | None = None  # of the stream without connection
        self.written = ""  # by the engine: characters of the whole stream
        self.ends = 0  # of utterances
        self.known, self.known_ends = 0, 0  # of both, those that the client has

    @initialize(opened=st.booleans())
    def connect(self, opened: bool) -> None:
        """Make a connection; with `opened` a stream is open at once."""
        self.talk = protocol(self.now, **LIMITS)
        self.timer = self.talk.timer(self.now)
        self.events: list[Event] | None = None  # that are being handled
        self.sending: ServerMessage | None = None
        self.got: list[ServerMessage] = []
        self.first = self.known  # characters that the client had before
        self.open, self.finished, self.overflowed = False, False, False
        self.asked: list[Event] = []
        self.bytes, self.samples = b"", np.zeros(0, np.float32)
        self.quiet_since, self.unread_since = self.now, self.now
        self.missed = 0  # where what was missed ends: it may wait whatever the limit is
        self.ending: str | None = None
        if opened:
            self.start_or_resume(kept=True, encoding="pcm_s16le")
            self.handle(full=False)

    # ---- the client

    @precondition(lambda self: self.events is None and self.talk.ending is None)
    @rule(frame=frames)
    def receive(self, frame: str | bytes) -> None:
        self.talk.receive_data(frame, self.now)
        self.events = list(self.talk.events_received())
        assert len(self.events) == (self.talk.ending is None)
        self.asked += self.events
        if self.events and isinstance(frame, bytes):
            self.bytes += frame

    @precondition(lambda self: self.events is None and self.talk.state is State.OPENING)
    @rule(kept=st.booleans(), encoding=st.sampled_from(["pcm_s16le", "pcm_f32le"]))
    def start_or_resume(self, kept: bool, encoding: str) -> None:
        fields = {"type": "start", "keep": kept, "encoding": encoding}
        if self.point:
            fields = {"type": "resume", "token": TOKEN, "characters": self.known}
            fields |= {"utterances": self.known_ends}
        self.receive(json.dumps(fields))

    @precondition(lambda self: self.events is None and self.talk.state is State.STREAMING)
    @rule(data=st.binary(min_size=1, max_size=400))
    def speak(self, data: bytes) -> None:
        self.receive(data)
        self.handle(full=False)

    @precondition(lambda self: self.events is None and self.talk.start and not self.talk.ending)
    @rule(frame=st.sampled_from([END, SUSPEND]))
    def end(self, frame: str) -> None:
        self.receive(frame)

    @precondition(lambda self: self.events is not None)
    @rule(full=st.booleans())
    def handle(self, full: bool) -> None:
        """Do what was asked for, as a shell does."""
        for event in self.events or []:
            if isinstance(event, Audio):
                self.samples = np.concatenate([self.samples, event.samples])
            elif isinstance(event, Start | Resume):
                try:
                    self.accept(event, full)
                except ProtocolError as error:
                    self.talk.fail(error.code, error.message)
            if not isinstance(event, Audio):  # no frame here has enough to count as audio
                self.quiet_since = self.now
        self.talk.events_handled(self.now)
        self.events = None

    def accept(self, event: Start | Resume, full: bool) -> None:
        if full:
            raise ProtocolError(ErrorCode.TOO_MANY_STREAMS, "expected fewer, got one more")
        if isinstance(event, Start):
            token = TOKEN if event.keep else None
            self.talk.accept(event, FACTS, self.now, token, recorded=True)
            self.point, self.written, self.ends = None, "", 0
            self.known = self.known_ends = self.first = 0
        else:
            if self.point is None or event.token != TOKEN:
                raise ProtocolError(ErrorCode.UNKNOWN_STREAM, "expected a token, got another")
            self.point.check(event)
            self.talk.resume(event, self.point, FACTS, self.now, TOKEN)
            self.point, self.missed = None, len(self.written)
        self.open = True

    @precondition(lambda self: self.talk.state is not State.CLOSED)
    @rule()
    def lose(self) -> None:
        self.talk.receive_eof()
        self.sending = None

    # ---- the engine

    @precondition(lambda self: self.open and not self.finished)
    @rule(text=st.text("abc é", min_size=1, max_size=6))
    def write(self, text: str) -> None:
        before = self.talk.ending
        times = [0.04 * (len(self.written) + each) for each in range(len(text))]
        self.talk.send_characters(text, times, [0.5] * len(text), position=1.0)
        self.written += text
        too_many = len(self.written) - max(self.known, self.missed) > LIMITS["outbox_characters"]
        if before is None and self.talk.ending is not None:
            assert too_many
            self.overflowed = True
        self.overflowed |= before is not None and too_many  # perhaps

    @precondition(lambda self: self.open and not self.finished)
    @rule()
    def end_utterance(self) -> None:
        self.talk.send_endpoint(self.ends, 0.0, 0.04, 0.08)
        self.ends += 1

    @precondition(lambda self: self.open and not self.finished and self.events is None)
    @rule()
    def finish(self) -> None:
        if self.talk.state is State.DRAINING:
            self.finished = True
            if isinstance(self.asked[-1], End):
                self.talk.send_final()
            else:
                self.talk.send_suspended("AAAA", self.talk.received, len(self.written))

    @rule(code=st.sampled_from([ErrorCode.SHUTTING_DOWN, ErrorCode.TAKEN_OVER]))
    def fail(self, code: ErrorCode) -> None:
        self.talk.fail(code, "expected nothing, got something")

    # ---- the socket and the clock

    @precondition(lambda self: self.sending is None)
    @rule()
    def send(self) -> None:
        data = self.talk.data_to_send(self.now)
        if data is not None:
            self.sending, self.unread_since = parse_server(data), self.now
            assert self.talk.data_to_send(self.now) is None

    @precondition(lambda self: self.sending is not None)
    @rule()
    def sent(self) -> None:
        assert self.sending is not None
        self.got.append(self.sending)
        if isinstance(self.sending, Chars):
            self.known += len(self.sending.text)
        elif isinstance(self.sending, Endpoint):
            assert self.sending.utterance == self.known_ends
            self.known_ends += 1
        self.sending = None
        self.talk.data_sent()

    @rule(seconds=st.floats(0.1, 60))
    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self.timer <= until:
            self.now = max(self.now, self.timer)
            before = self.talk.ending
            self.talk.handle_timer(self.now)
            if before is None:
                self.justified()
            self.timer = self.talk.timer(self.now)
            assert self.timer > self.now
        self.now = until

    def justified(self) -> None:
        """A client is given up after its time, and not before."""
        silent, unread = self.now - self.quiet_since, self.now - self.unread_since
        if self.talk.ending in (ErrorCode.START_TIMEOUT, ErrorCode.IDLE_TIMEOUT):
            assert self.events is None
        match self.talk.ending:
            case ErrorCode.START_TIMEOUT:
                assert silent > 10 - 1e-6
            case ErrorCode.IDLE_TIMEOUT:
                assert silent > 30 - 1e-6
            case ErrorCode.SLOW_CLIENT:
                assert unread > 10 - 1e-6
            case None:
                assert self.sending is None or unread < 10
                streams = self.talk.state in (State.OPENING, State.STREAMING)
                assert not streams or self.events is not None or silent < 30 + 10

    # ---- the end

    @precondition(
        lambda self: self.talk.ending and self.talk.state not in (State.CLOSING, State.CLOSED)
    )
    @rule()
    def release(self) -> None:
        if self.talk.detach_expected():
            self.point = self.talk.resume_point(self.talk.received, 1.0)
        self.talk.release(self.now)
        self.timer = min(self.timer, self.talk.timer(self.now))
        self.open, self.events = False, None
        if self.talk.recording:
            assert self.talk.recording.whole or self.talk.recording.dropped

    @precondition(lambda self: self.talk.close_expected() is not None)
    @rule()
    def close(self) -> None:
        close, last = self.talk.close_expected(), self.got[-1]
        assert close is not None
        assert isinstance(last, LAST)
        if isinstance(last, Error):
            assert close == (REASONS[last.code].close, last.code)
            assert last.code == self.talk.ending
        else:
            assert close.code == 1000
        resumed = any(isinstance(message, Ready) for message in self.got)
        assert self.overflowed or not resumed or self.known == len(self.written)
        self.talk.receive_eof()
        assert self.talk.state is State.CLOSED

    @precondition(lambda self: self.talk.state is State.CLOSED)
    @rule(opened=st.booleans())
    def connect_again(self, opened: bool) -> None:
        self.connect(opened)

    # ---- always

    @invariant()
    def the_first_ending_counts(self) -> None:
        if hasattr(self, "talk"):
            assert self.ending in (None, self.talk.ending)
            self.ending = self.talk.ending

    @invariant()
    def the_client_has_what_was_written_without_a_gap(self) -> None:
        if not hasattr(self, "talk"):
            return
        text = "".join(message.text for message in self.got if isinstance(message, Chars))
        assert text == self.written[self.first : self.first + len(text)]
        assert self.first + len(text) == self.known

    @invariant()
    def messages_come_in_order(self) -> None:
        if not getattr(self, "got", None):
            return
        assert isinstance(self.got[0], Ready | Error)
        assert not any(isinstance(message, Ready) for message in self.got[1:])
        assert not any(isinstance(message, LAST) for message in self.got[:-1])
        if isinstance(last := self.got[-1], Final):
            assert self.written.endswith(last.text)
            assert last.omitted + len(last.text) == len(self.written) == self.known
            if self.talk.recording:
                assert self.talk.recording.whole
                assert self.talk.recording.digest.count == len(self.written)

    @invariant()
    def what_is_asked_is_in_order(self) -> None:
        kinds = [type(event) for event in getattr(self, "asked", [])]
        assert not any(kind in (Start, Resume) for kind in kinds[1:])
        assert not any(kind in (End, Suspend) for kind in kinds[:-1])
        assert not kinds or kinds[0] in (Start, Resume)

    @invariant()
    def what_waits_is_bounded(self) -> None:
        if hasattr(self, "talk"):
            assert self.talk._queue._characters <= LIMITS["outbox_characters"]

    @invariant()
    def all_audio_is_heard_once(self) -> None:
        start = getattr(self, "talk", None) and self.talk.start
        if start and self.events is None and self.open:
            whole = PcmDecoder(start.encoding)
            try:
                expected = whole.decode(self.bytes)
            except ProtocolError:
                return  # which ended it
            assert np.array_equal(self.samples, expected[: len(self.samples)])


Conversation.TestCase.settings = settings(max_examples=80, stateful_step_count=50)
TestAnyOrder = Conversation.TestCase
