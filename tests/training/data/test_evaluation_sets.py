"""Manifests, folders of manifests, and plain folders as sets."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cortado.training.data.evaluation_sets import gather


def manifest(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"id": path.stem, "audio": "a.wav", "duration": 1.0, "speaker": "x", "text": "Café, 3!"}
    path.write_text(json.dumps({**row, "accent": "none"}))
    return path


def recording(path: Path, text: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(8_000), 16_000)
    if text is not None:
        path.with_suffix(".txt").write_text(text, encoding="utf-8")


def test_a_manifest_is_a_set_whatever_characters_its_texts_have(tmp_path: Path) -> None:
    [one] = gather([manifest(tmp_path / "corpus" / "dev.jsonl")])
    assert one.name == "corpus/dev"
    assert one.utterances[0].text == "café, 3!"
    assert one.utterances[0].fields["accent"] == "none"


def test_sets_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [manifest(tmp_path / name / "data" / "dev.jsonl") for name in ("monday", "tuesday")]
    with pytest.raises(ValueError, match="expected sets of different names, got data/dev twice"):
        gather(paths)


def test_a_folder_of_manifests_is_those_that_are_not_for_training(tmp_path: Path) -> None:
    for name in ("train-clean.jsonl", "dev.jsonl", "test.jsonl"):
        manifest(tmp_path / "corpus" / name)
    assert [one.name for one in gather([tmp_path / "corpus"])] == ["corpus/dev", "corpus/test"]
    manifest(tmp_path / "other" / "train.jsonl")
    assert [one.name for one in gather([tmp_path / "other"])] == ["other/train"]


def test_a_plain_folder_is_its_recordings_with_their_texts(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    recording(folder / "b.wav", "\ufeffTwo\n Lines \n")
    recording(folder / "anna" / "a.flac", None)
    (folder / "anna" / "A.TXT").write_bytes("Café".encode("latin-1"))
    [one] = gather([folder])
    assert one.name == "mine"
    assert [(u.id, u.speaker, u.text, u.duration) for u in one.utterances] == [
        ("anna/a.flac", "anna", "café", 0.5),
        ("b.wav", "unknown", "two lines", 0.5),
    ]


def test_a_recording_without_text_is_named(tmp_path: Path) -> None:
    recording(tmp_path / "a.wav", None)
    recording(tmp_path / "b.wav", None)
    with pytest.raises(ValueError, match=r"a\.wav: missing: its text, .* \(and 1 others\)"):
        gather([tmp_path])


def test_a_folder_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got neither"):
        gather([tmp_path])
