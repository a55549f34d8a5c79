"""Both directions of a conversation, without a socket."""

import numpy as np
import pytest

from cortado.server.protocol.events import DISCONNECTED, FINAL, SUSPENDED, Audio, Close, State
from cortado.server.protocol.messages import (
    Chars,
    End,
    Error,
    ErrorCode,
    Final,
    Ready,
    Resume,
    Start,
    Suspend,
    Suspended,
)
from cortado.server.protocol.recording import Digest
from cortado.server.protocol.transcript import ResumePoint, Transcript
from cortado.tests.server.protocol.talk import (
    END,
    FACTS,
    LIMIT,
    START,
    SUSPEND,
    protocol,
    read,
    receive,
    started,
    types,
)


def test_a_conversation_is_start_then_audio_then_end() -> None:
    talk = protocol()
    talk.receive_data('{"type":"start","sample_rate":8000,"encoding":"pcm_s16le"}', 0.0)
    assert list(talk.events_received()) == [Start(sample_rate=8000)]
    talk.accept(Start(sample_rate=8000), FACTS, 0.0, None, recorded=False)
    talk.events_handled(0.0)
    assert read(talk) == [Ready(**FACTS._asdict(), sample_rate=8000, encoding="pcm_s16le")]
    talk.receive_data(bytes(1600), 0.0)
    [audio] = talk.events_received()
    assert isinstance(audio, Audio)
    assert audio.samples.shape == (800,)
    assert talk.duration == 0.1
    talk.events_handled(0.0)
    talk.receive_data(END, 0.0)
    assert list(talk.events_received()) == [End()]
    talk.send_characters("hé", [0.04, 0.08], [1.0] * 2, 0.1)
    talk.send_final()
    assert types(read(talk)) == ["chars", "final"]
    assert talk.ending == FINAL
    talk.release(0.0)
    assert talk.close_expected() == Close(1000)
    talk.receive_eof()
    assert talk.state is State.CLOSED


@pytest.mark.parametrize(
    ("code", "frames"),
    [
        (ErrorCode.UNEXPECTED_MESSAGE, (bytes(2),)),
        (ErrorCode.UNEXPECTED_MESSAGE, (END,)),
        (ErrorCode.UNEXPECTED_MESSAGE, (START, START)),
        (ErrorCode.UNEXPECTED_MESSAGE, (START, '{"type":"resume","token":"a"}')),
        (ErrorCode.UNEXPECTED_MESSAGE, (START, END, bytes(2))),
        (ErrorCode.UNEXPECTED_MESSAGE, (START, END, END)),
        (ErrorCode.MESSAGE_TOO_BIG, (START, bytes(LIMIT + 1))),
        (ErrorCode.MESSAGE_TOO_BIG, (START, " " * (LIMIT + 1))),
        (ErrorCode.MESSAGE_TOO_BIG, (START, "ä" * (LIMIT // 2 + 1))),
        # one that is resampled cannot be suspended
        (ErrorCode.UNSUPPORTED_SAMPLE_RATE, ('{"type":"start","sample_rate":48000}', SUSPEND)),
    ],
)
def test_a_message_out_of_order_or_over_the_limit_is_refused(
    code: ErrorCode, frames: tuple[str | bytes, ...]
) -> None:
    talk = protocol()
    receive(talk, *frames)
    assert talk.error is not None
    assert talk.error.message.startswith("expected ")
    assert ", got " in talk.error.message
    assert talk.ending == talk.error.code == code


def test_a_stream_lasts_only_so_long_in_audio() -> None:
    talk = started(max_stream_seconds=1.0, max_message_bytes=2**20)
    receive(talk, bytes(32_000))
    assert talk.ending is None
    receive(talk, bytes(2))
    assert talk.ending == ErrorCode.STREAM_TOO_LONG


def test_a_stream_lasts_only_so_long_by_the_clock() -> None:
    talk = started(max_stream_seconds=1.5)
    talk.handle_timer(1.4)
    assert talk.ending is None
    talk.handle_timer(1.5)
    assert talk.ending == ErrorCode.STREAM_TOO_LONG


def test_what_was_decided_goes_before_the_error_which_is_the_last() -> None:
    talk = started()
    talk.send_characters("a", [0.1], [1.0], 0.2)
    talk.fail(ErrorCode.SHUTTING_DOWN, "expected a running server")
    talk.fail(ErrorCode.INTERNAL_ERROR, "expected no second ending")
    talk.send_characters("b", [0.2], [1.0], 0.3)
    assert talk.close_expected() is None
    talk.release(0.0)
    error = Error(
        code=ErrorCode.SHUTTING_DOWN, message="expected a running server", retry_after=1.0
    )
    assert read(talk) == [
        Chars(text="ab", times=[0.1, 0.2], confidences=[1.0] * 2, position=0.3),
        error,
    ]
    assert talk.close_expected() == Close(1012, "shutting_down")


def test_what_is_said_to_the_end_needs_no_error() -> None:
    talk = started()
    receive(talk, END)
    talk.send_final()
    talk.fail(ErrorCode.SHUTTING_DOWN, "expected a running server")
    talk.release(0.0)
    assert types(read(talk)) == ["final"]
    assert talk.close_expected() == Close(1000)
    assert talk.ending == ErrorCode.SHUTTING_DOWN


def test_a_client_that_reads_too_little_loses_the_rest_but_nothing_between() -> None:
    talk = started(outbox_characters=3)
    talk.send_characters("abc", [0.1] * 3, [1.0] * 3, 0.2)
    assert talk.data_to_send(0.0) is not None  # and is not read
    talk.send_characters("def", [0.2] * 3, [1.0] * 3, 0.3)
    talk.send_characters("gh", [0.3] * 2, [1.0] * 2, 0.4)
    assert talk.ending == ErrorCode.SLOW_CLIENT
    talk.data_sent()
    talk.send_characters("i", [0.4], [1.0], 0.5)  # for which there would be room
    talk.release(0.0)
    assert [getattr(message, "text", "") for message in read(talk)] == ["def", ""]


def test_who_does_not_read_what_is_left_is_closed_upon() -> None:
    talk = started(send_timeout_seconds=10.0)
    talk.fail(ErrorCode.SHUTTING_DOWN, "expected a running server")
    talk.release(5.0)
    assert talk.timer(5.0) == 15
    talk.handle_timer(14.9)
    assert talk.data_to_send(14.9) is not None
    talk.handle_timer(15.0)
    assert talk.state is State.CLOSED
    assert talk.data_to_send(15.0) is None


def test_silence_counts_from_the_last_audio_that_is_handled() -> None:
    talk = started(idle_timeout_seconds=30.0, max_message_bytes=2**20)
    talk.receive_data(bytes(32_000), 10.0)
    list(talk.events_received())
    talk.handle_timer(50.0)  # the engine has no room
    assert talk.ending is None
    talk.events_handled(50.0)
    receive(talk, b"", now=70.0)  # says nothing
    talk.handle_timer(79.9)
    assert talk.ending is None
    talk.handle_timer(80.0)
    assert talk.ending == ErrorCode.IDLE_TIMEOUT


def test_a_byte_now_and_then_does_not_hold_a_stream() -> None:
    talk = started(idle_timeout_seconds=30.0)
    for now in (10.0, 20.0, 29.0):
        receive(talk, bytes(2), now=now)
    talk.handle_timer(30.0)
    assert talk.ending == ErrorCode.IDLE_TIMEOUT


LOSSES = {
    ErrorCode.IDLE_TIMEOUT: True,
    ErrorCode.SLOW_CLIENT: True,
    ErrorCode.TAKEN_OVER: True,
    ErrorCode.INVALID_MESSAGE: False,
    ErrorCode.SHUTTING_DOWN: True,
}


@pytest.mark.parametrize(("code", "detaches"), LOSSES.items())
def test_a_stream_goes_on_without_a_connection_that_seems_lost(
    code: ErrorCode, detaches: bool
) -> None:
    talk = started(keep=True)
    assert not talk.detach_expected()
    talk.fail(code, "expected more, got less")
    assert talk.detach_expected() == detaches
    talk.release(0.0)
    assert not talk.detach_expected()


def test_a_stream_that_nobody_asked_for_or_that_has_ended_is_not_detached() -> None:
    for talk, frames in ((started(), ()), (started(keep=True), (END,))):
        receive(talk, *frames)
        talk.receive_eof()
        assert talk.ending == DISCONNECTED
        assert not talk.detach_expected()
        talk.release(0.0)
        assert talk.state is State.CLOSED


def test_a_suspended_stream_goes_on_over_another_connection() -> None:
    talk = started()
    receive(talk, SUSPEND)
    talk.send_suspended("AAAA", 15_000, 7)
    assert read(talk) == [Suspended(state="AAAA", received=15_000, characters=7)]
    assert talk.ending == SUSPENDED

    talk, resume = protocol(), Resume(state="AAAA")
    talk.receive_data(resume.model_dump_json(exclude_none=True), 0.0)
    assert list(talk.events_received()) == [resume]
    point = ResumePoint(Start(), 15_000, Transcript(80, 7), 0.9)
    talk.resume(resume, point, FACTS, 0.0, None)
    talk.events_handled(0.0)
    [ready] = read(talk)
    assert isinstance(ready, Ready)
    assert (ready.received, ready.token) == (15_000, None)
    receive(talk, bytes(2000))
    assert talk.duration == 1.0
    talk.receive_data(SUSPEND, 0.0)
    assert list(talk.events_received()) == [Suspend()]


def test_a_client_that_comes_back_is_sent_what_it_missed() -> None:
    talk = started(keep=True, outbox_characters=4)
    for text in ("abcd", "efgh"):
        talk.send_characters(text, [0.5] * 4, [1.0] * 4, 1.0)
        read(talk)
    talk.receive_eof()
    assert talk.detach_expected()
    point = talk.resume_point(8000, 1.0)
    resume = Resume(token="a token", characters=2)
    point.check(resume)
    again = protocol(outbox_characters=4)
    again.receive_data(resume.model_dump_json(exclude_none=True), 0.0)
    list(again.events_received())
    again.resume(resume, point, FACTS, 0.0, "a token")
    again.send_characters("ijkl", [1.5] * 4, [1.0] * 4, 2.0)  # as many as may wait
    ready, missed, new = read(again)
    assert isinstance(ready, Ready)
    assert (ready.received, ready.token) == (8000, "a token")
    assert missed == Chars(
        text="cdefgh", times=[0.5] * 6, confidences=[1.0] * 6, position=1.0
    )  # over the limit
    assert new == Chars(text="ijkl", times=[1.5] * 4, confidences=[1.0] * 4, position=2.0)
    assert again.ending is None


def test_characters_that_a_killed_server_wrote_may_be_written_again_in_two_attempts() -> None:
    killed = started(keep=True)
    killed.send_characters("abcd", [0.5] * 4, [1.0] * 4, 1.0)
    point = killed.resume_point(8000, 1.0, is_whole=False)  # as it was saved
    resume = Resume(token="a token", characters=10)  # the client has more
    for text in ("ef", "gh"):
        point.check(resume)
        again = protocol()
        again.receive_data(resume.model_dump_json(exclude_none=True), 0.0)
        list(again.events_received())
        again.resume(resume, point, FACTS, 0.0, "a token")
        again.send_characters(text, [0.5] * 2, [1.0] * 2, 1.0)
        assert [type(one) for one in read(again)] == [Ready]
        again.receive_eof()
        point = again.resume_point(8000, 1.0)  # lost, too
    assert not point.is_whole
    again.send_characters("ijkl", [0.5] * 4, [1.0] * 4, 1.0)
    assert [one.text for one in read(again) if isinstance(one, Chars)] == ["kl"]
    assert again.resume_point(8000, 1.0).is_whole


def test_a_recording_is_the_audio_and_a_digest_of_the_answer() -> None:
    talk = started(10.0, recorded=True)
    receive(talk, b"\x01\x02", now=10.5)
    talk.send_characters("a", [0.1], [1.0], 0.2)
    talk.send_endpoint(0, 0.1, 0.1, 0.3)
    receive(talk, END)
    talk.send_final()
    digest = Digest()
    digest.characters("a", [0.1])
    digest.endpoint(0.1, 0.1)
    assert talk.recording is not None
    assert talk.recording.lines_to_write() == [
        {"at": 0.5, "audio": "AQI="},
        {"digest": digest.value, "characters": 1},
    ]
    assert talk.recording.whole
    assert np.isclose(talk.duration, 1 / 16_000)
    assert read(talk)[-1] == Final(text="a", times=[0.1], confidences=[1.0], duration=0.0, words=[])


def test_a_recording_that_is_too_long_or_not_whole_is_dropped() -> None:
    for seconds, frames in ((0.001, bytes(100)), (600.0, "and so it ends")):
        talk = started(recorded=True, record_seconds=seconds)
        receive(talk, frames)
        talk.fail(ErrorCode.SHUTTING_DOWN, "expected a running server")
        talk.release(0.0)
        assert talk.recording is not None
        assert talk.recording.dropped
        assert talk.recording.lines_to_write() == []
