"""Whole recordings through a running server, several at a time, and its evaluation."""

import gc
import json
from pathlib import Path

import pytest
import soundfile

from cortado.clients import cli
from cortado.clients.connection import StreamError
from cortado.clients.speech import stream
from cortado.clients.through_server import transcribe_served
from cortado.model.audio.decode import decode
from cortado.tests.clients.serving import Served
from cortado.tests.model.untrained import noise


def test_evaluate_scores_a_running_server_over_its_protocol(
    server: Served, recording: Path, tmp_path: Path
) -> None:
    (tmp_path / "said.wav").write_bytes(recording.read_bytes())
    (tmp_path / "said.txt").write_text("speak and read")
    soundfile.write(tmp_path / "noise.wav", noise(1, 1.0), 16_000)
    (tmp_path / "noise.txt").write_text("")
    scores = tmp_path / "scores.json"
    assert (
        cli.main(["evaluate", str(tmp_path), "--server", server.stream, "--json", str(scores)]) == 0
    )
    [found] = json.loads(scores.read_text())["sets"]
    assert (found["system"], found["utterances"]) == (server.stream, 2)
    assert min(bin["confidence"] for bin in found["reliability"]) < 1  # as the server tells it
    heard = {row["id"]: row["hypothesis"] for row in found["results"]}
    alone = stream(recording, server.stream).characters
    assert heard["said.wav"] == "".join(one.text for one in alone)


def test_the_streams_of_an_evaluation_expect_its_phrases(
    server: Served, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "said.wav").write_bytes(recording.read_bytes())
    (tmp_path / "said.txt").write_text("speak and read")
    names = tmp_path / "names.txt"
    names.write_text("Read\n42\n")
    command = ["evaluate", str(tmp_path), "--server", server.stream, "--phrases", str(names)]
    assert cli.main(command) == 2
    assert "phrases: expected a phrase with letters" in capsys.readouterr().err
    names.write_text("Read\n\nZyntriQix\n")
    assert cli.main(command) == 0
    assert " of 1 phrases wrong (" in capsys.readouterr().out


def test_each_recording_gets_its_own_text_however_many_go_at_once(
    server: Served, recording: Path
) -> None:
    samples = decode(recording)
    recordings = [samples, noise(1, 0.5), samples[: len(samples) // 2], noise(2, 0.1)]
    one_by_one = dict(transcribe_served(server.stream, recordings, 1))
    at_once = dict(transcribe_served(server.stream, recordings, 3))
    assert sorted(at_once) == [0, 1, 2, 3]
    texts = [
        ["".join(one.text for one in found[k]) for k in range(4)] for found in (one_by_one, at_once)
    ]
    assert texts[0] == texts[1]


def test_streams_that_fail_with_the_first_are_no_faults_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(StreamError, match="no server at"):
        list(transcribe_served("ws://127.0.0.1:9/v1/stream", [noise(1, 0.1)] * 40))
    gc.collect()  # when asyncio complains of errors that nobody has seen
    assert caplog.messages == []
