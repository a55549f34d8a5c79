"""Manifests of miniature corpora: what is in them, what is said of flaws, the same bytes twice."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from cortado.tests.training.data.discs import tone, write_timit, write_wsj
from cortado.tests.training.recorded import rows_of, write_rows
from cortado.training.data import recordings
from cortado.training.data.corpora.source import Problem, Published
from cortado.training.data.manifest import OURS, Utterance, read
from cortado.training.data.prepare import PROBLEMS, READERS, TEXTS, Prepared, kinds, prepare
from cortado.training.data.recordings import samples_of

SPEAKERS = [("train", "dr1", "fcjf0"), ("test", "dr1", "mdab0"), ("test", "dr1", "faks0")]


def said(path: Path, text: str, seconds: float = 0.3) -> Path:
    """Write a recording into a folder, and its text beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(round(seconds * 16000)).astype(np.int16), 16000)
    path.with_suffix(".txt").write_text(text, encoding="utf-8")
    return path


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_timit_becomes_manifests_with_phones_words_and_times(tmp_path: Path) -> None:
    prepared, _ = prepare("timit", [write_timit(tmp_path / "disc", SPEAKERS)], tmp_path / "out")
    assert [one.name for one in prepared] == ["train", "dev", "test"]
    utterance = read(tmp_path / "out/test.jsonl")[0]
    assert utterance.id == "mdab0_si943"
    assert (utterance.duration, utterance.text, utterance.speaker) == (0.2, "she", "mdab0")
    assert utterance.phones[1] == ("sh", 0.05, 0.1)
    assert utterance.words == (("she", 0.05, 0.15),)
    assert utterance.fields == {"dialect": "dr1", "sex": "m"}
    assert len(samples_of(utterance)) == 3200


def test_twice_gives_the_same_bytes_whatever_the_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cortado.training.data.prepare.RECORDINGS_PER_PROCESS", 2)
    discs = write_wsj(tmp_path / "discs")
    for name, workers in (("once", 1), ("twice", 2)):
        prepare("wsj", discs, tmp_path / name, workers=workers)
    assert bytes_of(tmp_path / "once") == bytes_of(tmp_path / "twice")
    assert set(bytes_of(tmp_path / "once")) == {
        "train_si284.jsonl", "train_si84.jsonl", "dev93.jsonl", "eval92.jsonl", PROBLEMS,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("corpus", "inside", "discs", "wanted"),
    [
        ("wsj", "wsj", ["."], "train_si84"),
        ("wsj", "wsj", ["wsj0", "wsj1"], "train_si84"),
        ("wsj", "wsj/wsj0", [".", "../wsj1"], "train_si84"),
        ("timit", "timit", ["."], "train"),
        ("timit", "timit/TIMIT/TRAIN/DR1", ["."], "train"),
    ],
)
def test_discs_may_be_named_from_within(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    corpus: str,
    inside: str,
    discs: list[str],
    wanted: str,
) -> None:
    write_wsj(tmp_path / "wsj", merged=True)
    write_timit(tmp_path / "timit", SPEAKERS)
    monkeypatch.chdir(tmp_path / inside)
    prepare(corpus, [Path(disc) for disc in discs], tmp_path / "out")
    places = [row["audio"] for row in rows_of(tmp_path / f"out/{wanted}.jsonl")]
    assert places
    assert all(Path(place).is_file() and Path(place).is_absolute() for place in places)


def test_wsj_text_has_its_49_symbols_or_plain_english(tmp_path: Path) -> None:
    discs = write_wsj(tmp_path / "discs")
    texts = {}
    for text in ("corpus", "english", "raw"):
        prepare("wsj", discs, tmp_path / text, text=text)
        texts[text] = [row["text"] for row in rows_of(tmp_path / text / "train_si84.jsonl")]
    assert texts["corpus"][1] == "mr. smith isn't the winner -dash yet"
    assert texts["raw"][0] == 'The sale \\,COMMA was \\"DOUBLE\\-QUOTE cut [loud_breath]'
    assert texts["english"][:2] == [
        "the sale comma was double quote cut",
        "mr smith isn't the winner dash yet",
    ]
    row = rows_of(tmp_path / "corpus/train_si84.jsonl")[1]
    assert row["transcript"].startswith("Mr\\. Smith isn\\'t <the>")
    assert row["recorded_as"] == "si_tr_s"


def test_what_cannot_be_used_is_left_out_and_listed(tmp_path: Path) -> None:
    good = said(tmp_path / "in/good.wav", "Good")
    cut = said(tmp_path / "in/cut.wav", "Cut")
    cut.write_bytes(cut.read_bytes()[:-1000])
    said(tmp_path / "in/digits.wav", "Flight 101")
    said(tmp_path / "in/empty.wav", " ... ")
    prepared, problems = prepare("folder", [tmp_path / "in"], tmp_path / "out")
    assert [row["id"] for row in rows_of(tmp_path / "out/all.jsonl")] == ["good"]
    assert read(tmp_path / "out/all.jsonl")[0].audio == good
    assert problems == [
        Problem(str(cut), "expected a whole file, got one cut 1000 bytes short"),
        Problem("all: digits", "expected text of letters, apostrophes and spaces, got '0', '1'"),
        Problem("all: empty", "expected words, got '...'"),
    ]
    listed = (tmp_path / "out" / PROBLEMS).read_text().splitlines()
    assert listed == [f"{problem.where}: {problem.what}" for problem in problems]
    assert prepared[0].published is None
    assert prepared[0].differences() == []


def test_raw_text_keeps_everything(tmp_path: Path) -> None:
    said(tmp_path / "in/a.wav", "Flight  101, Zürich!\n")
    prepare("folder", [tmp_path / "in"], tmp_path / "out", text="raw")
    assert rows_of(tmp_path / "out/all.jsonl")[0]["text"] == "Flight 101, Zürich!"


def test_parts_of_recordings_keep_their_place(tmp_path: Path) -> None:
    said(tmp_path / "in/a.wav", "", 2.0)
    lines: list[dict[str, Any]] = [
        {"audio_filepath": "a.wav", "offset": 0.0, "duration": 0.5, "text": "one", "id": "x"},
        {"audio_filepath": "a.wav", "offset": 0.5, "duration": 1.5, "text": "two", "id": "y"},
        {"audio_filepath": "a.wav", "offset": 1.0, "duration": 1.5, "text": "late", "id": "z"},
        {"audio_filepath": "a.wav", "offset": math.nan, "duration": 1.0, "text": "x", "id": "n"},
        {"audio_filepath": "a.wav", "text": "x", "id": "w", "words": [["x", 0.5, 0.25]]},
    ]
    given = write_rows(tmp_path / "in/nemo.json", lines)
    _, problems = prepare("nemo", [given], tmp_path / "out")
    parts = read(tmp_path / "out/nemo.jsonl")
    assert [len(samples_of(part)) for part in parts] == [8000, 24000]
    assert (
        np.concatenate([samples_of(part) for part in parts]).tolist()
        == (tone(32000) / 32768).astype(np.float32).tolist()
    )
    assert problems == [
        Problem("nemo: n", "expected a part within 2.00 s of audio, got nan s"),
        Problem("nemo: w", "expected starts before ends, got ['x', 0.5, 0.25]"),
        Problem("nemo: z", "expected a part within 2.00 s of audio, got 2.50 s"),
    ]


def test_a_part_beyond_its_recording_is_an_error(tmp_path: Path) -> None:
    audio = said(tmp_path / "a.wav", "", 1.0)
    recordings._recording.cache_clear()
    with pytest.raises(
        ValueError, match=r"expected a recording of at least 1.50 s, got one of 1.00 s"
    ):
        samples_of(Utterance("a", audio, 1.0, "s", "", start=0.5))


def test_what_was_prepared_may_be_prepared_again(tmp_path: Path) -> None:
    prepare("timit", [write_timit(tmp_path / "disc", SPEAKERS)], tmp_path / "once")
    prepare("nemo", [tmp_path / "once/test.jsonl"], tmp_path / "twice")
    assert rows_of(tmp_path / "once/test.jsonl") == rows_of(tmp_path / "twice/test.jsonl")


@pytest.mark.parametrize("read_from", ["once", "once/test.jsonl"])
def test_a_manifest_that_is_read_is_not_overwritten(tmp_path: Path, read_from: str) -> None:
    once = tmp_path / "once"
    prepare("timit", [write_timit(tmp_path / "disc", SPEAKERS)], once)
    before = bytes_of(once)
    with pytest.raises(ValueError, match=r"expected another folder to write to, got .*once: "):
        prepare("nemo", [tmp_path / read_from], once)
    assert bytes_of(once) == before


@pytest.mark.parametrize(
    ("utterances", "speakers", "hours", "expected"),
    [
        (192, 24, 0.162, []),
        (191, 24, 0.161, ["1 of 192 utterances missing"]),
        (193, 24, 0.161, ["1 of 192 utterances too many"]),
        (192, 23, 0.5, ["23 speakers, published are 24", "0.50 hours, published are 0.16"]),
    ],
)
def test_a_set_is_held_against_the_published_one(
    utterances: int, speakers: int, hours: float, expected: list[str]
) -> None:
    published = Published(192, 0.16, 24)
    one = Prepared("test", Path("test.jsonl"), utterances, speakers, hours, published)
    assert one.differences() == expected


def test_problems_are_summed_up_by_kind() -> None:
    whats = ["missing: its audio", "doubled: the same as x", "missing: y", "expected a, got b"]
    assert kinds(Problem("x", what) for what in whats) == {
        "missing": 2, "doubled": 1, "unusable": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("swb", "corpus", "expected a corpus of timit, wsj, .*, got 'swb'"),
        ("timit", "x", "expected a text of corpus, english, raw, got 'x'"),
        ("timit", "raw", "expected TIMIT's .*, got none"),
    ],
)
def test_a_wrong_question_is_answered_before_any_work(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        prepare(name, [tmp_path], tmp_path / "out", text=text)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="which does not exist"):
        prepare("timit", [tmp_path / "nowhere"], tmp_path / "out")


def test_every_corpus_field_and_text_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/corpora.md").read_text(encoding="utf-8")
    assert [name for name in READERS if f"`cortado prepare {name} " not in page] == []
    assert [name for name in (*OURS, *TEXTS) if f"`{name}`" not in page] == []
