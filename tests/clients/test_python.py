"""`from cortado import load, transcribe`: recordings and live streams in one's own process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

import cortado
from cortado.model import transcription
from cortado.model.captions import Word
from cortado.model.emission import Character
from cortado.model.transcript import Transcript
from cortado.model.transcription import Transcriber
from cortado.tests.clients import serving


@pytest.fixture(scope="module")
def recogniser(model: Path) -> Transcriber:
    return cortado.load(model)


def test_a_file_gives_what_the_command_writes(
    recogniser: Transcriber, transcribed: dict[str, Any], recording: Path
) -> None:
    found = recogniser.transcribe(os.fspath(recording))
    assert str(found) == found.text == transcribed["text"].strip()
    times = [one["time"] for one in transcribed["characters"]]
    assert [one.time for one in found.characters] == times
    assert " ".join(one.text for one in found.words) == found.text


def test_an_array_and_a_stream_in_pieces_give_the_same(
    recogniser: Transcriber, recording: Path, spoken: NDArray[np.float32]
) -> None:
    found = recogniser.transcribe(recording)
    assert recogniser.transcribe(spoken) == found
    live, characters = recogniser.stream(), list[Character]()
    for start in range(0, len(spoken), 1000):
        characters += live.push(spoken[start : start + 1000])
    assert characters
    assert (*characters, *live.end()) == found.characters
    assert found.duration == len(spoken) / 16_000


def test_other_rates_are_resampled(recogniser: Transcriber, spoken: NDArray[np.float32]) -> None:
    twice = np.repeat(spoken, 2).astype(np.float64)
    assert len(recogniser.transcribe(twice, 32_000).words) > 3


def test_transcribe_loads_the_shipped_model_once(
    recogniser: Transcriber, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Mock(wraps=transcription.load)
    monkeypatch.setattr(transcription, "load", load)
    transcription._shipped.cache_clear()
    assert cortado.transcribe(recording) == recogniser.transcribe(recording)
    cortado.transcribe(np.zeros(0, np.float32))
    load.assert_called_once_with()


def test_a_transcript_has_words_with_times_and_captions() -> None:
    heard = Transcript((tuple(Character(text, n / 10) for n, text in enumerate(" ab  c")),), 1.0)
    assert heard.words == (Word("ab", 0.06, 0.2), Word("c", 0.46, 0.5))
    assert heard.text == "ab  c"
    assert heard.srt() == "1\n00:00:00,060 --> 00:00:01,060\nab c\n"
    assert heard.vtt() == "WEBVTT\n\n00:00:00.060 --> 00:00:01.060\nab c\n"
    assert Transcript((), 0.0).words == ()


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(9, np.int16),
        np.zeros((2, 9), np.float32),
        np.array([0.0, np.nan], np.float32),
        np.array([0.0, -32768.0]),
    ],
    ids=["integers", "two channels", "not a number", "the scale of integers"],
)
def test_samples_of_another_kind_are_refused(
    recogniser: Transcriber, wrong: NDArray[np.float32]
) -> None:
    with pytest.raises(ValueError, match=r"expected samples \(N,\) as floats in \[-1, 1\), got "):
        recogniser.transcribe(wrong)


def test_what_is_neither_a_file_nor_samples_is_refused(recogniser: Transcriber) -> None:
    with pytest.raises(ValueError, match=r"^expected a file or an array of samples, got list$"):
        recogniser.transcribe([1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^expected samples \(N,\) as floats .* got list$"):
        recogniser.stream().push([0.1, 0.2])  # type: ignore[arg-type]


def test_a_stream_may_be_ended_twice(recogniser: Transcriber, spoken: NDArray[np.float32]) -> None:
    live = recogniser.stream()
    live.push(spoken)
    live.end()
    assert live.end() == []


def test_an_address_is_fetched(recogniser: Transcriber, recording: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("upath")
    with fsspec.open("memory://talks/one.wav", "wb") as file:
        file.write(recording.read_bytes())
    assert recogniser.transcribe("memory://talks/one.wav") == recogniser.transcribe(recording)


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, cortado; sys.exit('numpy' in sys.modules or 'asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=serving.ROOT).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'listen'"):
        _ = cortado.listen  # type: ignore[attr-defined]
    assert (
        dir(cortado) == cortado.__all__ == ["Microphone", "connect", "load", "stream", "transcribe"]
    )
