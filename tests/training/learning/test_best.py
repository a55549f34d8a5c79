"""The best checkpoint by validation, in place of the last."""

from dataclasses import replace
from pathlib import Path

import pytest

from cortado.model import checkpoint_reader
from cortado.model.recognizer import Recognizer
from cortado.tests.training.learning.test_trainer import Killed, Killer, equal, tensors, trainer
from cortado.tests.training.tiny import recipe
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.stage import Stage

COURSE = {4: 0.5, 6: 0.3, 7: 0.4}  # error rates of the decoder at a run's saves; it begins later


class Scripted(Killer):
    """Scores by a script, and kills the run while it validates or after an update."""

    def __init__(
        self, course: dict[int, float], validation: int | None = None, update: int = 0
    ) -> None:
        super().__init__(update)
        self.course, self.killed_at = course, validation

    def validate(self, model: Recognizer, stage: Stage, step: int) -> dict[str, float]:
        if step == self.killed_at:
            raise Killed
        rate = self.course.get(step)
        return {} if rate is None else {"cer": 1 - rate, "wer": rate}


@pytest.fixture(scope="module")
def wanted(manifest: Path) -> Recipe:
    return replace(recipe(manifest), best="wer")


@pytest.fixture(scope="module")
def whole(wanted: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("whole")
    trainer(wanted, output).run(Scripted(COURSE))
    return output


def card(output: Path) -> dict[str, object]:
    found = checkpoint_reader.read_card(output / "checkpoint")["card"]
    return {name: found.get(name) for name in ("steps", "validation")}


def weights(output: Path) -> bytes:
    return (output / "checkpoint/model.safetensors").read_bytes()


def test_the_checkpoint_is_the_one_with_the_fewest_errors(whole: Path) -> None:
    assert card(whole) == {"steps": 6, "validation": {"wer": 0.3}}


@pytest.mark.parametrize(
    ("course", "steps"), [({}, 7), ({4: 0.5}, 4), ({4: 0.5, 6: 0.5, 7: 0.4}, 7)]
)
def test_the_last_one_stays_only_while_no_checkpoint_has_a_score(
    wanted: Recipe, tmp_path: Path, course: dict[int, float], steps: int
) -> None:
    trainer(wanted, tmp_path).run(Scripted(course))
    assert card(tmp_path)["steps"] == steps


@pytest.mark.parametrize("kill", [{"update": 5}, {"update": 7}, {"validation": 6}])
def test_a_run_killed_and_resumed_keeps_the_same_checkpoint(
    wanted: Recipe, whole: Path, tmp_path: Path, kill: dict[str, int]
) -> None:
    with pytest.raises(Killed):
        trainer(wanted, tmp_path).run(Scripted(COURSE, **kill))
    trainer(wanted, tmp_path).run(Scripted(COURSE))
    assert card(tmp_path) == card(whole)
    assert weights(tmp_path) == weights(whole)
    assert equal(tensors(tmp_path), tensors(whole))


def test_a_run_that_is_done_keeps_its_checkpoint(wanted: Recipe, whole: Path) -> None:
    before = weights(whole)
    trainer(wanted, whole).run(Scripted({7: 0.9}))
    assert weights(whole) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"validation": ()}, "expected validation sets for best = 'wer', got none"),
        ({"best": "per"}, "expected best among wer, cer, got 'per'"),
    ],
)
def test_a_best_that_validation_cannot_tell_is_refused(
    wanted: Recipe, change: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(wanted, **change)  # type: ignore[arg-type]
