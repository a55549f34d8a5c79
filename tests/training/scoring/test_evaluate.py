"""Evaluation of a recogniser whose text is nonsense, but depends on the audio."""

import json
from pathlib import Path
from typing import Any

import jiwer
import pytest

from cortado.model import checkpoint
from cortado.model.arrays import Samples
from cortado.model.audio.decode import decode
from cortado.model.backends.choice import choose
from cortado.model.progress import Progress, unwatched
from cortado.model.search.settings import GREEDY
from cortado.model.streaming.recordings import transcribe
from cortado.tests.model.untrained import TINY, TINY_SEED, noise, untrained
from cortado.tests.training.recorded import rows_of, write_corpus, write_rows
from cortado.tests.training.scoring.heard import printed
from cortado.training.data import recordings
from cortado.training.data.evaluation_sets import gather, set_name
from cortado.training.scoring.evaluate import Rules, SetScore
from cortado.training.scoring.evaluate import evaluate as evaluate_sets
from cortado.training.scoring.outputs import write_json
from cortado.training.scoring.report import table
from cortado.training.scoring.systems import System, in_order, served

TEXTS = ["the cat", "it's a long sentence", "", "no"]
KEYS = {"name", "utterances", "hours", "wer", "cer", "wer_ci95", "rtf"} | {
    "substitutions",
    "deletions",
    "insertions",
    "delay",
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    checkpoint.save(untrained(TINY, TINY_SEED).recognizer, folder)
    return folder


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return corpus(tmp_path / "tiny", len(TEXTS))


def corpus(folder: Path, count: int) -> Path:
    said = [(noise(k, 0.6 + 0.2 * k), text) for k, text in enumerate(TEXTS[:count])]
    return write_corpus(folder, said, "dev", ("speaker 0", "speaker 1"))


def evaluate(
    saved: Path, manifests: list[Path], progress: Progress, rules: Rules | None = None
) -> list[SetScore]:
    """Evaluate a checkpoint as the command does."""
    recognizer = checkpoint.load(saved)
    system = served(choose(recognizer, "reference", GREEDY), saved.name, recognizer)
    return evaluate_sets(system, gather(manifests), rules or Rules.named(), progress)


@pytest.fixture(scope="module")
def scored(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SetScore]]:
    """A manifest, and the scores of the checkpoint on it."""
    manifest = corpus(tmp_path_factory.mktemp("scored") / "tiny", len(TEXTS))
    return manifest, evaluate(saved, [manifest], unwatched)


def as_json(sets: list[SetScore], folder: Path) -> list[dict[str, Any]]:
    write_json(sets, folder / "scores.json")
    return json.loads((folder / "scores.json").read_text())["sets"]


def test_a_set_is_named_by_its_folder_and_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set_name(Path("../data/librispeech-mini/dev.jsonl")) == "librispeech-mini/dev"
    monkeypatch.chdir("/usr")
    assert set_name(Path("dev.jsonl")) == "usr/dev"


def test_scores_are_those_of_what_each_file_gives_alone(
    scored: tuple[Path, list[SetScore]], tmp_path: Path
) -> None:
    manifest, sets = scored
    [found] = as_json(sets, tmp_path)
    online = untrained(TINY, TINY_SEED)
    recordings = [decode(manifest.parent / f"dev-{k}.wav") for k in range(len(TEXTS))]
    hypotheses = ["".join(one.text for one in transcribe(online, each)) for each in recordings]
    words = jiwer.process_words(TEXTS, hypotheses)
    assert set(found) >= KEYS
    assert found["name"] == "tiny/dev"
    assert found["utterances"] == len(TEXTS)
    assert found["hours"] == pytest.approx((0.6 + 0.8 + 1.0 + 1.2) / 3600)
    assert found["wer"] == pytest.approx(words.wer)
    assert found["cer"] == pytest.approx(jiwer.cer(TEXTS, hypotheses))
    assert found["substitutions"] == words.substitutions
    assert found["deletions"] == words.deletions
    assert found["insertions"] == words.insertions
    low, high = found["wer_ci95"]
    assert low <= found["wer"] <= high
    assert found["rtf"] > 0
    assert found["unreadable"] == 0


def test_sets_come_in_the_order_of_their_manifests_with_progress(
    saved: Path, manifest: Path, tmp_path: Path
) -> None:
    other = corpus(tmp_path / "other", 1)
    seen: list[tuple[str, int, int]] = []
    sets = evaluate(saved, [other, manifest], lambda *now: seen.append(now))
    assert [one.name for one in sets] == ["other/dev", "tiny/dev"]
    assert seen[0] == ("other/dev", 0, 1)
    assert seen[-1] == ("tiny/dev: delays", 4, 4)
    assert seen == sorted(seen)


def test_delays_are_of_the_text_as_it_is_compared(
    saved: Path, scored: tuple[Path, list[SetScore]], tmp_path: Path
) -> None:
    said = [(noise(k, 0.6 + 0.2 * k), f"{text} <cough>!") for k, text in enumerate(TEXTS)]
    marked = write_corpus(tmp_path / "tiny", said, "dev")
    [found] = evaluate(saved, [marked], unwatched, Rules.named("word", "corpus"))
    [plain] = scored[1]
    assert found.delay == plain.delay
    assert found.delay


def test_the_delays_in_a_recording_of_many_parts_need_one_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = corpus(tmp_path / "long", 2)
    parts = [
        {**row, "id": f"{row['id']}-{k}", "start": 0, "duration": 0.2 + 0.1 * k}
        for row in rows_of(long)
        for k in range(3)
    ]
    decoded: list[Path] = []

    def counted(path: Path) -> Samples:
        decoded.append(path)
        return decode(path)

    monkeypatch.setattr(recordings, "decode", counted)
    silent = in_order(lambda audio: ((k, ()) for k, _ in enumerate(audio)))
    system = System("a", "online", silent, untrained().recognizer)
    evaluate_sets(system, gather([write_rows(long, parts)]), Rules.named(), unwatched)
    assert len(decoded) == 4  # each recording for its words, and once more for its delays


def test_audio_that_cannot_be_read_is_listed_and_not_scored(
    saved: Path, manifest: Path, tmp_path: Path
) -> None:
    (manifest.parent / "dev-1.wav").write_text("no audio")
    (manifest.parent / "dev-3.wav").unlink()
    [one] = evaluate(saved, [manifest], unwatched)
    assert [result.utterance.id for result in one.results] == ["dev-0", "dev-2"]
    assert [str(line).split(": expected")[0] for line in one.failures] == [
        str(manifest.parent / "dev-1.wav"),
        str(manifest.parent / "dev-3.wav"),
    ]
    [found] = as_json([one], tmp_path)
    assert (found["utterances"], found["unreadable"]) == (2, 2)


def test_a_set_of_which_nothing_can_be_read_has_no_rates(saved: Path, tmp_path: Path) -> None:
    path = corpus(tmp_path / "gone", 1)
    (path.parent / "dev-0.wav").unlink()
    sets = evaluate(saved, [path], unwatched)
    [found] = as_json(sets, tmp_path)
    assert (found["wer"], found["wer_ci95"], found["utterances"]) == (None, None, 0)
    assert printed(table(sets)).count(" - ") > 0


def test_a_bad_manifest_stops_before_any_work(saved: Path, manifest: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    seen: list[str] = []
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 1: field 'id'"):
        evaluate(saved, [manifest, bad], lambda name, *_: seen.append(name))
    assert seen == []


def test_the_table_shows_every_figure_of_a_set_on_its_line(
    scored: tuple[Path, list[SetScore]],
) -> None:
    sets = scored[1]
    [line] = [line for line in printed(table(sets)).splitlines() if "tiny/dev" in line]
    score = sets[0].score
    assert score is not None
    assert f"{100 * score.wer:.1f} [" in line
    for count in (score.substitutions, score.deletions, score.insertions, score.loops):
        assert f" {count} " in line
