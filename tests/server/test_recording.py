"""Streams that are recorded can be heard again, with the same result."""

import os
import resource
import threading
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from cortado.clients.commands.replay import replayed
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.streaming import endpoint, pool
from cortado.model.streaming.endpoint import Rule
from cortado.server.metrics import Metrics
from cortado.server.protocol.messages import Start
from cortado.server.protocol.recording import Recording
from cortado.server.recorder import Recorder, Writer, read
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import (
    END,
    PATIENCE,
    START,
    Stuck,
    cut,
    pcm,
    running,
    say,
    wait_for,
)

SPEECH = noise(1, 2.0)
FACTS = {"model": "m", "backend": "reference", "digest": "00"}


@pytest.mark.parametrize("start", [START, '{"type":"start","sample_rate":44100,"endpoints":false}'])
def test_a_recorded_stream_is_heard_again_alike(
    start: str, online: ReferenceRecognizer, tmp_path: Path
) -> None:
    with running(online, record=tmp_path / "new") as server:
        said = say(server.url, start, *cut(pcm(SPEECH), 3), END)
    [path] = (tmp_path / "new").iterdir()
    assert path.stem == said.messages[0]["session"]
    assert path.stat().st_mode & 0o077 == 0
    recorded = read(path)
    assert b"".join(recorded.frames) == pcm(SPEECH)
    assert recorded.facts["digest"] == online.digest.hex()
    found = replayed(online, recorded)
    assert (found.value, found.count) == (recorded.digest, len(said.text))
    less = recorded._replace(frames=recorded.frames[:-1])
    assert replayed(online, less).value != recorded.digest


def test_a_recorded_stream_is_heard_again_with_its_silence_and_phrases(
    online: ReferenceRecognizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (endpoint, pool):  # short, as is what an untrained model hears
        monkeypatch.setattr(module, "rules_after", lambda *_, **__: (Rule(length=0.6),))
    with running(online, record=tmp_path) as server:
        said = say(server.url, '{"type":"start","silence_ms":300}', pcm(SPEECH), END)
    assert "endpoint" in said.types
    [path] = tmp_path.iterdir()
    recorded = read(path)
    assert replayed(online, recorded).value == recorded.digest
    expecting = recorded._replace(start=Start(phrases=("ada",)))
    with pytest.raises(ValueError, match="expected a search for phrases, got the greedy"):
        replayed(online, expecting)


def test_streams_that_are_not_whole_or_too_long_are_not_kept(
    online: ReferenceRecognizer, tmp_path: Path
) -> None:
    with running(online, record=tmp_path, record_seconds=1.0) as server:
        say(server.url, START, pcm(SPEECH), END)
        say(server.url, START, pcm(SPEECH[:8000]), START)
        said = say(server.url, START, pcm(SPEECH[:8000]), END)
    assert [path.stem for path in tmp_path.iterdir()] == [said.messages[0]["session"]]


def test_a_file_whose_client_hangs_up_leaves_no_recording_and_is_counted(
    online: ReferenceRecognizer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    Stuck.go.clear()
    with running(Stuck(online.recognizer), record=tmp_path) as server:
        with closing(HTTPConnection(server.page.removeprefix("http://"))) as client:
            audio = pcm(np.ones(16_000, np.float32))  # on which the model holds
            client.request("POST", "/v1/listen?encoding=linear16&sample_rate=16000", audio)
            assert wait_for(lambda: len(list(tmp_path.iterdir())) == 1)
        ending = "disconnected"
        assert wait_for(lambda: server.metric("cortado_streams_total", ending=ending) == 1)
        assert wait_for(lambda: not list(tmp_path.iterdir()))
        assert "stream ended" in caplog.messages
        Stuck.go.set()
        assert server.is_at_rest()


def test_without_the_setting_nothing_is_recorded(online: ReferenceRecognizer) -> None:
    with running(online) as server:
        assert server.service.streams.recorder is None


def test_a_folder_holds_so_many_recordings_and_no_more(tmp_path: Path) -> None:
    writer = Writer(2)
    recorder = Recorder(tmp_path, FACTS, Metrics().recordings_failed, writer)
    dropped = []
    for number in range(3):
        file, recording = recorder.open(str(number), Start()), Recording(Start(), 1.0, 0.0)
        assert writer.wait(PATIENCE)
        assert file
        recording.audio(b"12", 0.5)
        file.update(recording)
        dropped.append(recording.dropped)
        recording.finish()
        file.update(recording)
        assert writer.wait(PATIENCE)
    assert dropped == [False, False, True]
    assert sorted(one.stem for one in tmp_path.iterdir()) == ["0", "1"]
    assert read(tmp_path / "1.jsonl").frames == [b"12"]


def test_a_disk_that_hangs_holds_up_no_stream_that_begins(tmp_path: Path) -> None:
    writer, comes_back = Writer(2), threading.Event()
    writer.do(comes_back.wait)  # as for a file on it
    recorder = Recorder(tmp_path, FACTS, Metrics().recordings_failed, writer)
    files = [recorder.open(str(number), Start()) for number in range(3)]
    assert files[2] is None, "or what waits for the disk would grow with each stream"
    for one in filter(None, files):
        recording = Recording(Start(), 1.0, 0.0)
        recording.drop()
        one.update(recording)
    assert recorder.open("3", Start()) is None
    assert list(tmp_path.iterdir()) == []
    comes_back.set()
    assert writer.wait(PATIENCE)
    assert list(tmp_path.iterdir()) == []
    file, recording = recorder.open("4", Start()), Recording(Start(), 1.0, 0.0)
    recording.finish()
    assert file
    file.update(recording)
    assert writer.wait(PATIENCE)
    assert read(tmp_path / "4.jsonl").frames == []


@pytest.mark.parametrize("fault", ["gone", "full"])
def test_a_recording_that_cannot_be_written_harms_no_stream(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metrics, writer = Metrics(), Writer(2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    recorder = Recorder(tmp_path / "folder", FACTS, metrics.recordings_failed, writer)
    if fault == "gone":
        (tmp_path / "folder").rmdir()
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        file, recording = recorder.open("1", Start()), Recording(Start(), 1.0, 0.0)
        assert file
        recording.audio(b"12", 0.5)
        file.update(recording)
        recording.finish()
        file.update(recording)
        assert writer.wait(PATIENCE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert b"cortado_recordings_failed_total 1.0" in metrics.exposition()
    assert list(tmp_path.rglob("*.jsonl")) == []
    [line] = caplog.records
    assert vars(line)["path"] == str(tmp_path / "folder" / "1.jsonl")


def test_a_disk_that_is_too_slow_costs_the_recording_and_holds_up_no_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, writer, (disk, end) = Metrics(), Writer(2), os.pipe()  # which is full soon
    monkeypatch.setattr("os.open", lambda *_: end)
    monkeypatch.setattr("cortado.server.recorder.MAX_BEHIND", 2)
    recorder = Recorder(tmp_path, FACTS, metrics.recordings_failed, writer)
    file, recording = recorder.open("1", Start()), Recording(Start(), 100.0, 0.0)
    assert file
    assert writer.wait(PATIENCE)
    monkeypatch.undo()
    for _ in range(3):
        recording.audio(bytes(100_000), 0.5)
        file.update(recording)
    assert recording.dropped
    assert not writer.wait(0.01)
    for _ in range(2):  # of a stream that goes on
        recording.audio(b"12", 0.5)
        file.update(recording)
    with os.fdopen(disk, "rb") as reader:
        assert reader.read().count(b"\n") == 3
    assert writer.wait(PATIENCE)
    assert b"cortado_recordings_failed_total 1.0" in metrics.exposition()


def test_a_folder_that_cannot_be_recorded_into_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"expected a folder to record streams in, got .*/file: "):
        Recorder(tmp_path / "file", FACTS, Metrics().recordings_failed, Writer(2))


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"version":1}\n{}\n'])
def test_what_is_no_recording_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match="expected a whole recording"):
        read(path)
