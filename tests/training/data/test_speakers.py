"""Normalisation by speakers' statistics, from the cache of frames to an evaluation's report."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from cortado.clients import cli
from cortado.model import checkpoint, checkpoint_reader
from cortado.model.adaptation import adapted
from cortado.model.arrays import Samples
from cortado.model.audio.decode import decode
from cortado.model.backends.choice import choose
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.features.speaker import statistics_of
from cortado.model.progress import unwatched
from cortado.model.recognizer import Recognizer
from cortado.model.search.settings import GREEDY
from cortado.model.streaming.recordings import transcribe, transcribe_many
from cortado.model.vocabulary import Vocabulary
from cortado.tests.model.test_adaptation import CONFIG, recognizer
from cortado.tests.model.untrained import noise
from cortado.tests.training.recorded import rows_of, write_corpus
from cortado.tests.training.scoring.heard import printed
from cortado.tests.training.tiny import PLAIN, TEXTS, corpus, recipe
from cortado.training.data.augment import Augmentation
from cortado.training.data.batches import Drawn, Sampler
from cortado.training.data.evaluation_sets import gather
from cortado.training.data.log_mel_cache import CachedCorpus, cached
from cortado.training.data.non_speech import FLOOR
from cortado.training.data.speakers import (
    augmented_statistics,
    speaker_statistics,
    transcribed,
)
from cortado.training.data.voices import by_speaker_indices
from cortado.training.learning.monitor import Monitor, Recording
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.run import validation_sets
from cortado.training.learning.stage import Stage
from cortado.training.learning.trainer import Trainer
from cortado.training.scoring.evaluate import Rules, SetScore, evaluate
from cortado.training.scoring.outputs import set_as_json
from cortado.training.scoring.page import PagePlan, drawn_otherwise, write_page
from cortado.training.scoring.report import table
from cortado.training.scoring.systems import System, served_by_speaker


class Said(NamedTuple):
    """Somebody's utterance."""

    id: str
    speaker: str


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> CachedCorpus:
    folder = tmp_path_factory.mktemp("tones")
    return cached(corpus(folder / "tones", speakers="ab"), folder / "cache")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two loud and two soft recordings of two speakers, by turns."""
    folder = tmp_path_factory.mktemp("tiny")
    said = [((1, 0.1)[k % 2] * noise(k, 1.0), "no no") for k in range(4)]
    return write_corpus(folder, said, "dev", "ab", "FLOAT")


def test_utterances_of_unknown_speakers_stand_for_themselves() -> None:
    said = [Said("0", "b"), Said("1", "unknown"), Said("2", "a"), Said("3", "b"), Said("4", "")]
    assert by_speaker_indices([*said, Said("5", "unknown")]) == [[0, 3], [1], [2], [4], [5]]


def test_a_voice_is_the_statistics_of_all_that_its_speaker_says_in_the_corpus(
    tones: CachedCorpus,
) -> None:
    found = speaker_statistics(tones)
    for first in (0, 1):
        said = range(first, len(tones), 2)
        every = np.concatenate([tones.logmel(k).astype(np.float64) for k in said])
        for k in said:
            np.testing.assert_allclose(found[k].mean, every.mean(0), rtol=1e-5)
            np.testing.assert_allclose(found[k].deviation, every.std(0), rtol=1e-4, atol=1e-4)
    assert not np.allclose(found[0].mean, found[1].mean)


def test_an_utterance_made_louder_is_normalised_as_though_its_speaker_were(
    tones: CachedCorpus,
) -> None:
    logmel, voice = tones.logmel(0), speaker_statistics(tones)[0]
    louder = augmented_statistics(voice, logmel, logmel + 2)
    np.testing.assert_allclose(louder.mean, voice.mean + 2, rtol=1e-5)
    assert louder.deviation is voice.deviation


def sampler(tones: CachedCorpus) -> Sampler:
    return Sampler([tones], [1.0], Vocabulary(), 400, 9.0, 7, speakers=[speaker_statistics(tones)])


def test_batches_are_standardised_and_end_in_the_speaker_s_silence(tones: CachedCorpus) -> None:
    drawn = [Drawn(0, k, tones.utterances[k].frames) for k in (1, 0)]
    batch = sampler(tones).load(drawn, PLAIN, 0)
    for row, one in enumerate(drawn):
        voice = speaker_statistics(tones)[one.utterance]
        wanted = (tones.logmel(one.utterance) - voice.mean) / voice.deviation
        np.testing.assert_allclose(batch.logmel[row, : one.frames], wanted, atol=1e-3)
        silence = (FLOOR - voice.mean) / voice.deviation
        np.testing.assert_allclose(batch.logmel[row, -1], silence, rtol=1e-4)


def test_a_pause_before_an_utterance_does_not_move_its_speaker_s_statistics(
    tones: CachedCorpus,
) -> None:
    before, own = (tones.utterances[k].frames for k in (2, 0))
    one = Drawn(0, 0, before + 400 + own, after=2, pause=400)
    batch = sampler(tones).load([one], PLAIN, 0)
    voice = speaker_statistics(tones)[0]
    wanted = (tones.logmel(0) - voice.mean) / voice.deviation
    np.testing.assert_allclose(batch.logmel[0, before + 400 : one.frames], wanted, atol=1e-3)


def test_the_level_of_an_augmented_utterance_does_not_reach_the_model(tones: CachedCorpus) -> None:
    loud = replace(PLAIN, gain=3.0)
    drawn = [Drawn(0, 3, tones.utterances[3].frames)]
    found = [sampler(tones).load(drawn, config, 5).logmel for config in (PLAIN, loud)]
    frames = tones.utterances[3].frames
    clear = tones.logmel(3) > FLOOR + 3  # what a softer copy does not lose in the floor
    difference = (found[0] - found[1])[0, :frames].abs().numpy()
    assert np.median(difference[clear]) < 0.05


def test_silence_is_normalised_by_itself(tones: CachedCorpus) -> None:
    batch = sampler(tones).load([Drawn(-1, 5, 300)], Augmentation(), 0)
    assert torch.isfinite(batch.logmel).all()
    assert batch.target_lengths.tolist() == [0]


def plan(manifest: Path) -> Recipe:
    return replace(recipe(manifest), model=CONFIG)


def test_training_learns_from_standardised_frames_and_says_so(tmp_path: Path) -> None:
    manifest = corpus(tmp_path / "tones", speakers="ab")
    tones = cached(manifest, tmp_path / "cache")
    trainer = Trainer(plan(manifest), [tones], tmp_path / "run")
    assert [len(one) for one in trainer.sampler.speakers] == [len(TEXTS)]
    trainer.run(None)
    written = checkpoint_reader.read_card(tmp_path / "run" / "checkpoint")
    assert written["config"]["features"]["normalisation"] == "speaker"
    assert all(torch.isfinite(x).all() for x in trainer.model.state_dict().values())


def test_a_recogniser_of_running_means_can_be_taught_speakers_statistics(tmp_path: Path) -> None:
    manifest = corpus(tmp_path / "tones")
    checkpoint.save(Recognizer(recipe(manifest).model), tmp_path / "start")
    tones = cached(manifest, tmp_path / "cache")
    wanted = replace(plan(manifest), start=tmp_path / "start")
    with pytest.raises(ValueError, match=r"expected FeatureConfig\(normalisation='speaker'"):
        Trainer(wanted, [tones], tmp_path / "run")
    parts = replace(wanted, start_parts=("encoder", "ctc", "decoder"))
    found = Trainer(parts, [tones], tmp_path / "run").model
    given = checkpoint.load(tmp_path / "start").state_dict()
    own = found.state_dict()
    assert all(torch.equal(own[name], given[name]) for name in given if "features" not in name)
    assert found.config == CONFIG


def test_validation_hears_each_speaker_by_his_own_statistics(tmp_path: Path) -> None:
    recordings = [(1, 0.1)[k % 2] * noise(k, 1.0) for k in range(4)]
    said = [Recording(x, "no", str(k), "ab"[k % 2]) for k, x in enumerate(recordings)]

    def texts(model: Recognizer, samples: Sequence[Samples]) -> list[str]:
        found = dict(transcribe_many(ReferenceRecognizer(model), samples))
        return ["".join(one.text for one in found[k]) for k in range(len(samples))]

    found = transcribed(recognizer(), recordings, said, texts)
    for first in (0, 1):
        part = recordings[first::2]
        statistics = statistics_of(recognizer().features, [[one] for one in part])
        assert found[first::2] == texts(adapted(recognizer(), statistics), part)
    monitor = Monitor(tmp_path, {"tiny/dev": said})
    monitor.validate(recognizer(), Stage("attention", 1, attention=1.0), 1)
    monitor.close()
    assert [row["set"] for row in rows_of(tmp_path / "validation.jsonl")] == [
        "tiny/dev/ctc",
        "tiny/dev/offline",
    ]


def test_validation_sets_know_who_speaks(manifest: Path) -> None:
    [found] = validation_sets(replace(plan(manifest), validation_utterances=3)).values()
    assert [(one.id, one.speaker) for one in found] == [
        ("dev-0", "a"),
        ("dev-1", "b"),
        ("dev-2", "a"),
    ]


def greedy() -> System:
    return served_by_speaker(recognizer(), "tiny", lambda one: choose(one, beam=GREEDY))


@pytest.fixture(scope="module")
def scored(manifest: Path) -> SetScore:
    [found] = evaluate(greedy(), gather([manifest]), Rules.named(), unwatched)
    return found


def test_evaluation_takes_statistics_over_each_speaker_s_recordings(
    manifest: Path, scored: SetScore
) -> None:
    assert [one.utterance.id for one in scored.results] == [f"dev-{k}" for k in range(4)]
    for k, result in enumerate(scored.results):
        said = [[decode(manifest.parent / f"dev-{one}.wav")] for one in range(k % 2, 4, 2)]
        voice = adapted(recognizer(), statistics_of(recognizer().features, said))
        alone = transcribe(ReferenceRecognizer(voice), decode(manifest.parent / f"dev-{k}.wav"))
        assert result.hypothesis == "".join(one.text for one in alone) != ""


def test_reports_say_that_whole_speakers_are_not_online(
    manifest: Path, scored: SetScore, tmp_path: Path
) -> None:
    assert scored.delay is None
    assert set_as_json(scored)["speaker_statistics"] is True
    told = " ".join(printed(table([scored])).split())
    assert "over all that each speaker says in the set: not online" in told
    write_page([scored], tmp_path / "page.html", recognizer(), PagePlan(1), unwatched)
    text = (tmp_path / "page.html").read_text()
    [shown] = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.S)[0])["sets"]
    assert "not online" in shown["features"]
    assert shown["worst"][0]["attention"]["characters"]


def test_pictures_that_another_backend_could_not_draw_say_so(scored: SetScore) -> None:
    assert drawn_otherwise(scored, recognizer()) == ""
    fast = drawn_otherwise(replace(scored, backend="fast-bf16"), recognizer())
    assert "drawn by the reference" in fast
    assert "the backend fast-bf16" in fast
    assert "a server" in drawn_otherwise(replace(scored, backend="server"), recognizer())
    assert "the beam search" in drawn_otherwise(replace(scored, mode="beam"), recognizer())


def test_a_recording_that_cannot_be_read_is_no_part_of_its_speaker(
    manifest: Path, scored: SetScore, tmp_path: Path
) -> None:
    for file in manifest.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "dev-2.wav").write_text("no audio")
    [found] = evaluate(greedy(), gather([tmp_path / "dev.jsonl"]), Rules.named(), unwatched)
    assert [one.utterance.id for one in found.results] == ["dev-0", "dev-1", "dev-3"]
    assert len(found.failures) == 1
    assert found.results[1].hypothesis == scored.results[1].hypothesis
    assert found.speaker_statistics is not None
    alone = statistics_of(recognizer().features, [[decode(tmp_path / "dev-0.wav")]])
    np.testing.assert_array_equal(found.speaker_statistics["dev-0"].mean, alone.mean)


@pytest.mark.usefixtures("logging_as_it_was")
def test_the_commands_take_such_a_checkpoint_and_servers_do_not(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint.save(recognizer(), tmp_path / "speaker_statistics")
    chosen = ["--checkpoint", str(tmp_path / "speaker_statistics")]
    wav = str(manifest.parent / "dev-0.wav")
    for search in (["--mode", "expected"], ["--backend", "reference", "--beam", "1"]):
        assert cli.main(["evaluate", str(manifest), *search, *chosen]) == 0
        assert "not online" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["transcribe", wav, *chosen]) == 0
    assert capsys.readouterr().out.strip()
    assert cli.main(["align", wav, "--out", str(tmp_path / "a.svg"), *chosen]) == 0
    capsys.readouterr()
    for refused in (["serve", "--port", "0"], ["bench", "endless", str(manifest)]):
        assert cli.main([*refused, *chosen]) == 2
        assert "'speaker'" in capsys.readouterr().err
