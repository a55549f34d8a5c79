"""`cortado export`: the mean of checkpoints and their words in a folder, or one line of why not."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cortado.clients import cli
from cortado.model import checkpoint
from cortado.model.config import Confidence, RecognizerConfig
from cortado.model.recognizer import Recognizer
from cortado.model.search.language_file import FILE, language_of
from cortado.model.search.source_model import FILE as SOURCE
from cortado.model.vocabulary import Vocabulary
from cortado.tests.training.tiny import MODEL
from cortado.training.language.source_model import estimate, write

Capture = pytest.CaptureFixture[str]


def stored(folder: Path, seed: int, config: RecognizerConfig = MODEL) -> Path:
    """A checkpoint of an untrained model that says that it has been scored."""
    torch.manual_seed(seed)
    scores = [{"name": "some/dev", "wer": 0.1, "cer": 0.1}]
    card = {"recipe": f"recipe {seed}", "steps": 100 * seed, "language": "Tones", "scores": scores}
    card["validation"] = {"wer": 0.1}
    checkpoint.save(Recognizer(config), folder, card)
    return folder


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return stored(tmp_path / "one", 1)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return stored(tmp_path / "two", 2)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    text = tmp_path / "text.txt"
    text.write_text("it was good\n")
    path = tmp_path / "words.safetensors"
    assert cli.main(["lm", str(text), "--output", str(path)]) == 0
    return path


def run(*arguments: str | Path) -> int:
    return cli.main(["export", *map(str, arguments)])


def card(folder: Path) -> dict[str, object]:
    content: dict[str, dict[str, object]] = json.loads((folder / "model.json").read_text())
    return content["card"]


def test_a_mean_has_its_share_of_each(one: Path, two: Path, tmp_path: Path) -> None:
    assert run(one, two, "--share", "3", "--share", "1", "-o", tmp_path / "mean") == 0
    mean = checkpoint.load(tmp_path / "mean").state_dict()
    a, b = (checkpoint.load(each).state_dict() for each in (one, two))
    for name, value in mean.items():
        wanted = 0.75 * a[name].double() + 0.25 * b[name].double()
        torch.testing.assert_close(value.double(), wanted, atol=1e-3, rtol=1e-3)  # 16 bits
    assert card(tmp_path / "mean") == {
        "recipe": "recipe 1",
        "steps": 100,
        "language": "Tones",
        "mean": [
            {"share": 0.75, "recipe": "recipe 1", "steps": 100},
            {"share": 0.25, "recipe": "recipe 2", "steps": 200},
        ],
    }


def test_stops_are_scaled_and_shifted(one: Path, tmp_path: Path) -> None:
    assert run(one, "--stops", "0.5", "2", "-o", tmp_path / "sooner") == 0
    before, after = (checkpoint.load(each) for each in (one, tmp_path / "sooner"))
    values = torch.randn(1, 9, before.config.encoder.width)
    energies = []
    for model in (before, after):
        decoded = model.decoder.teacher_forced(
            values, torch.ones(1, 9, dtype=torch.bool), torch.zeros(1, 0, dtype=torch.long)
        )
        assert decoded.energies is not None
        energies.append(decoded.energies)
    torch.testing.assert_close(energies[1], 0.5 * energies[0] + 2, atol=1e-3, rtol=1e-3)
    said = {"recipe": "recipe 1", "steps": 100, "language": "Tones", "stops": [0.5, 2.0]}
    assert card(tmp_path / "sooner") == said  # others than those that were scored


def test_stops_that_cannot_be_changed_are_refused(
    one: Path, tmp_path: Path, capsys: Capture
) -> None:
    decoder = replace(MODEL.decoder, attention=replace(MODEL.decoder.attention, kind="soft"))
    soft = stored(tmp_path / "soft", 1, replace(MODEL, decoder=decoder))
    assert run(soft, "--stops", "1", "0.5", "-o", tmp_path / "new") == 2
    assert "expected a monotonic attention, whose stops can be" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert run(one, "--stops", "nan", "0", "-o", tmp_path / "new") == 2
    assert "expected finite numbers to change stops by, got nan and 0.0" in capsys.readouterr().err


def test_shares_are_equal_if_not_given(one: Path, two: Path, tmp_path: Path) -> None:
    assert run(one, two, "-o", tmp_path / "plain") == 0
    assert run(one, two, "--share", "2", "--share", "2", "-o", tmp_path / "said") == 0
    plain, said = ((tmp_path / name / "model.safetensors") for name in ("plain", "said"))
    assert plain.read_bytes() == said.read_bytes()


def test_one_checkpoint_keeps_its_scores_and_takes_words(
    one: Path, words: Path, tmp_path: Path, capsys: Capture
) -> None:
    output = tmp_path / "models" / "mine"
    assert run(one, "--lm", words, "--name", "mine", "-o", output) == 0
    assert card(output) == card(one) | {"recipe": "mine"}
    assert (output / FILE).read_bytes() == words.read_bytes()
    assert language_of(output, Vocabulary()).known == 3
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith(f"{output}: ")
    assert "3 words" in said
    assert said.endswith("streams by reference-beam128-lm")


def test_large_matrices_in_8_bits_take_half_the_room(tmp_path: Path) -> None:
    one = stored(tmp_path / "one", 1, replace(MODEL, encoder=replace(MODEL.encoder, width=128)))
    assert run(one, "-o", tmp_path / "16") == 0
    assert run(one, "--bits", "8", "-o", tmp_path / "8") == 0
    long, short = ((tmp_path / bits / "model.safetensors").stat().st_size for bits in ("16", "8"))
    assert 0.5 < short / long < 0.65


def test_a_mean_searches_as_the_first_of_its_checkpoints(one: Path, tmp_path: Path) -> None:
    decoder = replace(MODEL.decoder, ctc_weight=0.3, deciding=0.5, confidence=Confidence(2.0))
    two = stored(tmp_path / "two", 2, replace(MODEL, decoder=decoder))
    assert run(two, one, "-o", tmp_path / "mean") == 0
    assert checkpoint.load(tmp_path / "mean").config.decoder == decoder


def test_the_words_are_those_of_the_first_that_has_any(
    one: Path, two: Path, words: Path, tmp_path: Path
) -> None:
    shutil.copyfile(words, two / FILE)
    write(two / SOURCE, estimate(["of letters"], Vocabulary().names))
    assert run(one, two, "-o", tmp_path / "with") == 0
    assert (tmp_path / "with" / FILE).exists()
    assert (tmp_path / "with" / SOURCE).read_bytes() == (two / SOURCE).read_bytes()
    assert run(one, two, "--lm", "none", "-o", tmp_path / "without") == 0
    assert not (tmp_path / "without" / FILE).exists()


def test_a_run_stands_for_its_checkpoint(tmp_path: Path) -> None:
    stored(tmp_path / "run" / "checkpoint", 1)
    assert run(tmp_path / "run", "-o", tmp_path / "mine") == 0
    assert card(tmp_path / "mine")["steps"] == 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--share", "1"), "expected one --share for each checkpoint (2), got 1"),
        (("--share", "1", "--share", "-1"), "expected shares of at least 0"),
        (("--share", "0", "--share", "0"), "expected shares of at least 0, not all of them 0"),
        (("--share", "nan", "--share", "1"), "expected shares of at least 0"),
        (("--lm", "absent"), "expected a language model at absent, got no such file"),
    ],
)
def test_what_does_not_fit_is_one_line_and_writes_nothing(
    arguments: tuple[str, ...],
    said: str,
    one: Path,
    two: Path,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    output = tmp_path / "mine"
    assert run(one, two, *arguments, "-o", output) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not output.exists()


def test_a_narrower_encoder_counts_as_a_part_of_the_first_one(one: Path, tmp_path: Path) -> None:
    width = MODEL.encoder.width
    wide = stored(tmp_path / "wide", 2, replace(MODEL, encoder=replace(MODEL.encoder, width=9)))
    assert width < 9
    assert run(wide, one, "--share", "0", "--share", "1", "-o", tmp_path / "mean") == 0
    mean, narrow = (checkpoint.load(folder).eval() for folder in (tmp_path / "mean", one))
    with torch.no_grad():
        samples = 0.1 * torch.randn(1, 16_000)
        found, wanted = mean.encode(samples), narrow.encode(samples)
        assert found.shape[2] == 9
        torch.testing.assert_close(found[..., :width], wanted, atol=0.01, rtol=0.01)  # 16 bits
        torch.testing.assert_close(mean.ctc(found), narrow.ctc(wanted), atol=0.01, rtol=0.01)
    assert run(one, wide, "-o", tmp_path / "none") == 2  # the first has the shape


def test_checkpoints_of_other_sizes_have_no_mean(
    one: Path, tmp_path: Path, capsys: Capture
) -> None:
    other = stored(tmp_path / "other", 1, RecognizerConfig())
    assert run(one, other, "-o", tmp_path / "mine") == 2
    error = capsys.readouterr().err
    assert "expected checkpoints of one configuration, got encoder.channels" in error
    assert str(one) in error
    assert str(other) in error


def test_checkpoints_of_other_confidence_have_a_mean(one: Path, two: Path, tmp_path: Path) -> None:
    content = json.loads((one / "model.json").read_text())
    content["config"]["decoder"]["confidence"] = [0.3, 1.5, -2.0, -2.3]
    (one / "model.json").write_text(json.dumps(content))
    assert run(one, two, "-o", tmp_path / "mean") == 0
    found = checkpoint.load(tmp_path / "mean").config.decoder.confidence
    assert found == (0.3, 1.5, -2.0, -2.3)


def test_neither_a_file_nor_a_checkpoint_is_overwritten(
    one: Path, two: Path, capsys: Capture
) -> None:
    weights = two / "model.safetensors"
    before = weights.read_bytes()
    for output in (two, weights):
        assert run(one, "-o", output) == 2
        assert f"expected a folder that is new or empty, got {output}" in capsys.readouterr().err
    assert weights.read_bytes() == before
