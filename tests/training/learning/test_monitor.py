"""What a person sees of a run: curves, scores, an alignment."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cortado.model.emission import FLUSH_STEPS
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import flushed
from cortado.tests.training.recorded import rows_of
from cortado.tests.training.tiny import fresh, spoken
from cortado.training.learning.monitor import (
    EVERY,
    Monitor,
    Recording,
    ValidationSet,
    ctc_transcripts,
)
from cortado.training.learning.stage import Stage

ENCODER, DECODER = Stage("encoder", 10), Stage("attention", 10, attention=1.0)
SETS = {
    "tones/dev": [Recording(spoken("no"), "no", "0"), Recording(spoken("a tree"), "a tree", "1")],
    "b/dev": [Recording(spoken("x"), "x", "0")],
}


def validated(
    folder: Path,
    sets: Mapping[str, ValidationSet],
    stage: Stage = DECODER,
    step: int = 1,
    model: Recognizer | None = None,
) -> dict[str, float]:
    """Return the error rates of a model, whose run is watched in a folder."""
    monitor = Monitor(folder, sets)
    found = monitor.validate(model or fresh(), stage, step)
    monitor.close()
    return found


def curves(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return events


def test_curves_are_means_since_the_last_point(tmp_path: Path) -> None:
    told: list[tuple[int, str]] = []
    monitor = Monitor(tmp_path, {}, lambda step, text: told.append((step, text)))
    for step in range(1, 2 * EVERY + 1):
        monitor.updated(ENCODER, step, 0.5, {"ctc": float(step)}, 4.0)
    monitor.close()
    events = curves(tmp_path)
    points = [(point.step, point.value) for point in events.Scalars("training/ctc")]
    assert points == [(10, 5.5), (20, 15.5)]
    assert [point.value for point in events.Scalars("training/rate")] == [0.5, 0.5]
    assert all(point.value > 0 for point in events.Scalars("training/times_real_time"))
    assert [step for step, _ in told] == [10, 20]
    assert told[0][1].startswith("encoder: ctc 5.500, ")


def test_the_mean_of_a_loss_is_over_the_updates_that_have_it(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, {})
    for step in range(1, EVERY + 1):  # the second stage begins within a point
        parts = {"ctc": 1.0} if step <= 6 else {"ctc": 1.0, "stop": 2.0}
        monitor.updated(DECODER, step, 0.5, parts, 4.0)
    monitor.close()
    assert [point.value for point in curves(tmp_path).Scalars("training/stop")] == [2.0]


@pytest.mark.parametrize(
    ("stage", "paths"),
    [
        (ENCODER, ["ctc"]),
        (DECODER, ["ctc", "online"]),
        (replace(DECODER, ctc=0.0), ["online"]),  # a head that learns nothing has no score
        (replace(ENCODER, ctc=0.0, states=1.0), ["ctc"]),
    ],
    ids=["ctc", "both", "decoder", "neither"],
)
def test_validation_scores_every_set_on_every_path(
    tmp_path: Path, stage: Stage, paths: list[str]
) -> None:
    found = validated(tmp_path, SETS, stage, 7)
    rows = rows_of(tmp_path / "validation.jsonl")
    names = [f"{name}/{path}" for name in SETS for path in paths]
    assert [row["set"] for row in rows] == names
    assert all(row["step"] == 7 and row["cer"] >= 0 and row["wer"] >= 0 for row in rows)
    # what the model decodes with, mean over the sets; nothing where the decoder has not learnt yet
    own = rows[len(paths) - 1 :: len(paths)]
    means = {kind: sum(row[kind] for row in own) / 2 for kind in ("cer", "wer")}
    assert found == (pytest.approx(means) if stage.attention else {})
    events = curves(tmp_path)
    for row in rows:
        (point,) = events.Scalars(f"{row['set']}/cer")
        assert point.value == pytest.approx(row["cer"])
    assert events.Tags()["images"] == (["expected alignment"] if stage.attention else [])


def test_validation_adds_to_the_scores_of_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2):  # a run that was resumed
        with caplog.at_level(logging.INFO):
            validated(tmp_path, {"b/dev": SETS["b/dev"]}, ENCODER, step)
    assert [row["step"] for row in rows_of(tmp_path / "validation.jsonl")] == [1, 2]
    assert "step 2 b/dev/ctc: CER" in caplog.text


def test_validation_leaves_the_weights_alone(tmp_path: Path) -> None:
    model = fresh()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    validated(tmp_path, SETS, model=model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_run_without_validation_sets_goes_on(tmp_path: Path) -> None:
    validated(tmp_path, {})
    assert not (tmp_path / "validation.jsonl").exists()


def test_recordings_in_which_nobody_speaks_are_scored_too(tmp_path: Path) -> None:
    quiet = [Recording(spoken("no"), "", "0"), Recording(spoken("x"), "x", "1")]
    validated(tmp_path, {"quiet/dev": quiet})
    assert (tmp_path / "validation.jsonl").exists()


def test_a_text_that_cannot_be_spelled_is_scored_and_not_drawn(tmp_path: Path) -> None:
    odd = Recording(spoken("no"), "no 1", "0")
    validated(tmp_path / "odd", {"a/dev": [odd]})
    validated(tmp_path / "both", {"a/dev": [odd, *SETS["b/dev"]]})
    drawn = [curves(tmp_path / name).Tags()["images"] for name in ("odd", "both")]
    assert drawn == [[], ["expected alignment"]]


def test_the_silence_of_serving_follows_a_recording() -> None:
    for length in (1, 639, 640, 641):
        found = flushed(spoken("x")[:length])
        assert len(found) == (-(-length // SAMPLES_PER_STEP) + FLUSH_STEPS) * SAMPLES_PER_STEP
        assert not found[length:].any()


def test_ctc_text_is_the_greedy_path_without_repeats_and_blanks() -> None:
    model = fresh().eval()
    with torch.no_grad():
        model.ctc.weight.zero_()
        model.ctc.bias.zero_()
        model.ctc.bias[5] = 1  # the same symbol at every frame
    assert list(ctc_transcripts(model, [spoken("x")])) == [model.config.vocabulary.decode([5])]
    with torch.no_grad():
        model.ctc.bias[model.config.vocabulary.blank] = 2
    assert list(ctc_transcripts(model, [spoken("x")])) == [""]
