"""Reading manifests, and what is said of bad ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from cortado.model.vocabulary import Vocabulary
from cortado.training.data.manifest import Utterance, read, read_for, spoken

ROW = {"id": "a", "audio": "audio/a.opus", "duration": 1.5, "speaker": "s", "text": "It's me"}


def manifest(folder: Path, *rows: object) -> Path:
    path = folder / "dev.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def error_of(path: Path) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the callers look at the words
        read(path)
    return str(caught.value)


def test_a_line_is_an_utterance_with_its_audio_beside_the_manifest(tmp_path: Path) -> None:
    assert read(manifest(tmp_path, ROW)) == [
        Utterance("a", tmp_path / "audio/a.opus", 1.5, "s", "it's me")
    ]


def test_audio_is_absolute_wherever_we_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest(tmp_path, ROW)
    monkeypatch.chdir(tmp_path)
    assert read(Path("dev.jsonl"))[0].audio == tmp_path / "audio/a.opus"


def test_order_is_kept_and_blank_lines_and_other_fields_are_passed_over(tmp_path: Path) -> None:
    rows = [{**ROW, "id": name, "voice": "en-us"} for name in "cab"]
    assert [one.id for one in read(manifest(tmp_path, rows[0], "", *rows[1:], ""))] == list("cab")


def test_text_may_be_empty_but_nothing_else(tmp_path: Path) -> None:
    assert read(manifest(tmp_path, {**ROW, "text": ""}))[0].text == ""
    for field in ("id", "audio", "speaker"):
        message = error_of(manifest(tmp_path, {**ROW, field: " "}))
        assert f"field '{field}': expected text that is not empty, got \" \"" in message


@pytest.mark.parametrize("field", ROW)
def test_a_missing_field_is_named_with_its_file_and_line(tmp_path: Path, field: str) -> None:
    row = {name: value for name, value in ROW.items() if name != field}
    path = manifest(tmp_path, {**ROW, "id": "b"}, row)
    assert error_of(path) == f"{path}, line 2: field '{field}': expected a value, got none"


@pytest.mark.parametrize("field", ["id", "audio", "speaker", "text"])
def test_a_field_of_the_wrong_kind_is_named(tmp_path: Path, field: str) -> None:
    message = error_of(manifest(tmp_path, {**ROW, field: 7}))
    assert f"line 1: field '{field}': expected text" in message
    assert message.endswith("got 7")


@pytest.mark.parametrize(
    "duration", [0, -1, "1.5", True, None, float("nan"), float("inf"), 10**400, [1]]
)
def test_a_duration_that_is_none_is_refused(tmp_path: Path, duration: Any) -> None:
    message = error_of(manifest(tmp_path, {**ROW, "duration": duration}))
    assert "line 1: field 'duration': expected seconds above 0, at most 86400, got " in message


def test_an_unknown_character_is_named_unless_not_strict(tmp_path: Path) -> None:
    path = manifest(tmp_path, {**ROW, "text": "Café 7"})
    message = error_of(path)
    assert "line 1: field 'text': expected characters among" in message
    assert "got '7', 'é'" in message
    assert read(path, None)[0].text == "café 7"


def test_an_id_that_comes_twice_is_refused(tmp_path: Path) -> None:
    message = error_of(manifest(tmp_path, ROW, ROW))
    assert message.endswith("line 2: field 'id': expected one of its own, got \"a\" as on line 1")


@pytest.mark.parametrize("line", ["{", "[1]", "7", '"text"', "{'id': 1}", "[" * 100_000])
def test_a_line_that_is_no_object_is_quoted(tmp_path: Path, line: str) -> None:
    message = error_of(manifest(tmp_path, {**ROW, "id": "b"}, line))
    assert "line 2: expected a JSON object, got " in message
    assert len(message) < len(str(tmp_path)) + 150


def test_bytes_that_are_no_text_are_an_error_of_their_line(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_bytes(b'{"id": "\xff\xfe"}\n')
    assert "line 1: expected a JSON object" in error_of(path)


def test_a_manifest_without_utterances_is_an_error(tmp_path: Path) -> None:
    assert "expected at least one utterance" in error_of(manifest(tmp_path, ""))


def test_a_missing_manifest_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.jsonl")


def test_a_recogniser_of_phones_learns_phones(tmp_path: Path) -> None:
    row = {**ROW, "phones": [["sh", 0.0, 0.1], ["iy", 0.1, 0.2]]}
    vocabulary = Vocabulary(phones=("sh", "iy"))
    (found,) = read_for(manifest(tmp_path, row), vocabulary)
    assert (found.text, spoken(found, Vocabulary())) == ("sh iy", "sh iy")
    assert read_for(manifest(tmp_path, row), Vocabulary())[0].text == "it's me"
    with pytest.raises(ValueError, match=r"dev.jsonl, utterance 'a': expected phones .* got 'sh'"):
        read_for(manifest(tmp_path, row), Vocabulary(phones=("s", "iy")))
    with pytest.raises(ValueError, match="expected phones in the manifest, got none for a"):
        read_for(manifest(tmp_path, ROW), vocabulary)
