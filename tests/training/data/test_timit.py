"""TIMIT in miniature, from the disc to a phone error rate, by the recipes that are shipped."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import soundfile
import torch

from cortado.clients import cli
from cortado.model.backends.choice import choose
from cortado.model.backends.cpu.recognizer import unsupported
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.checkpoint import load, save
from cortado.model.checkpoint_reader import read_card
from cortado.tests.model.untrained import noise
from cortado.tests.server.running import END, START, pcm, rounded, running, say, written
from cortado.tests.training.data.discs import write_timit
from cortado.tests.training.recorded import rows_of, write_rows
from cortado.tests.training.tiny import RECIPES, narrow
from cortado.training.data.manifest import read
from cortado.training.data.phones import PHONES_39, PHONES_61
from cortado.training.data.prepare import prepare
from cortado.training.data.recordings import samples_of
from cortado.training.learning.recipe import Corpus, Recipe
from cortado.training.learning.recipe import read as read_recipe
from cortado.training.learning.run import train

MODES = {"timit-hard-monotonic": ("online", "hard-beam"), "timit-mocha": ("expected", "beam")}
SPEAKERS = [("train", "dr1", "fcjf0"), ("test", "dr1", "mdab0"), ("test", "dr1", "faks0")]

Capture = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class Trained:
    """A shipped recipe after a few updates on TIMIT in miniature."""

    recipe: Recipe
    output: Path  # of the run
    eager: Path  # its checkpoint, whose attention stops at every frame: it writes many phones
    test: Path  # the manifest of the core test set

    @property
    def recording(self) -> Path:
        return read(self.test)[0].audio


def little(recipe: Recipe, folder: Path) -> Recipe:
    """Return a shipped recipe of manifests in a folder, narrow, with two updates a stage."""
    return replace(
        recipe,
        model=narrow(recipe.model),
        corpora=tuple(replace(one, manifest=folder / one.manifest.name) for one in recipe.corpora),
        validation=tuple(folder / path.name for path in recipe.validation),
        stages=tuple(replace(stage, steps=2, cuts=(1,)) for stage in recipe.stages),
        interval=2,
    )


@pytest.fixture(scope="module", params=[*MODES])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("timit")
    write_timit(folder / "disc", SPEAKERS, ["sa1", "sx127", "si943"])
    prepare("timit", [folder / "disc"], folder / "manifests")
    shipped = read_recipe(RECIPES / f"{request.param}.toml")
    recipe = little(shipped, folder / "manifests")
    model = load(train(recipe, folder / "run"))
    with torch.no_grad():
        model.decoder.attention.monotonic.bias.fill_(9.0)
    save(model, folder / "eager")
    return Trained(recipe, folder / "run", folder / "eager", folder / "manifests" / "test.jsonl")


def phones_of(text: str) -> set[str]:
    return set(text.split())


def test_a_run_leaves_a_checkpoint_of_its_recipe(trained: Trained) -> None:
    model = load(trained.output / "checkpoint")
    assert model.config == trained.recipe.model
    assert model.config.vocabulary.phones == PHONES_61
    every = rows_of(trained.output / "validation.jsonl")
    scores = [one for one in every if one["set"].endswith("online")]
    best = min(scores, key=lambda one: one["per"])  # of equal ones the first
    card = read_card(trained.output / "checkpoint")["card"]
    assert (card["steps"], card["validation"]) == (best["step"], {"per": best["per"]})
    normalizer = model.features.normalizer
    assert normalizer.spread is not None
    assert normalizer.mean.shape == (41,)
    deltas = normalizer.spread[:, 1:]
    assert ((deltas > 0) & (deltas < 1)).all()


def test_validation_reads_phones(trained: Trained) -> None:
    scores = rows_of(trained.output / "validation.jsonl")
    assert {one["set"] for one in scores} == {"manifests/dev/ctc", "manifests/dev/online"}
    assert all(one.keys() == {"step", "set", "per"} and one["per"] > 0 for one in scores)


@pytest.mark.parametrize("which", [0, 1])
def test_it_is_scored_on_39_phones(trained: Trained, which: int, tmp_path: Path) -> None:
    mode = MODES[trained.recipe.name][which]
    scores = tmp_path / "scores.json"
    arguments = ["evaluate", str(trained.test), "--normalise", "corpus"]
    arguments += ["--mode", mode, "--checkpoint", str(trained.eager), "--json", str(scores)]
    if mode == "online":
        arguments += ["--beam", "1"]  # a search takes what is as unsure for nothing
    assert cli.main(arguments) == 0
    (found,) = json.loads(scores.read_text())["sets"]
    assert found["unit"] == "phone"
    assert found["rate"] == found["per"] > 0
    assert found["utterances"] == 2
    for one in found["results"]:
        assert one["reference"] == "sil sh iy sil"
        assert phones_of(one["hypothesis"]) <= set(PHONES_39)
    assert any(one["hypothesis"] for one in found["results"])


@pytest.mark.parametrize("unit", ["word", "char"])
def test_other_units_are_refused_to_what_writes_phones(
    trained: Trained, unit: str, capsys: Capture
) -> None:
    arguments = [str(trained.test), "--unit", unit, "--checkpoint", str(trained.eager)]
    assert cli.main(["evaluate", *arguments]) == 2
    assert capsys.readouterr().err == f"cortado: expected --unit phone for eager, got {unit}\n"


def test_files_are_transcribed_to_phones_with_spaces_between(
    trained: Trained, capsys: Capture
) -> None:
    arguments = ["--json", str(trained.recording), "--checkpoint", str(trained.eager)]
    arguments += ["--beam", "1"]
    assert cli.main(["transcribe", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    written = "".join(one["text"] for one in found["characters"])
    assert written.endswith(" ")  # a phone is whole when its space is written
    assert found["text"] == written.strip()
    assert phones_of(found["text"]) <= set(PHONES_61)
    assert len(found["text"].split()) > 5


def test_it_is_described(trained: Trained, capsys: Capture) -> None:
    assert cli.main(["info", str(trained.eager), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lookahead_ms"] == 70  # four frames of deltas, three of the encoder's own four
    assert found["step_ms"] == 40


def test_the_fast_backend_leaves_it_to_the_reference(trained: Trained) -> None:
    model = load(trained.eager)
    assert unsupported(model) == "encoder.kind is 'lstm'"
    assert choose(model).name == "reference-beam128"
    with pytest.raises(ValueError, match=r"fast backend supports, but encoder\.kind is 'lstm'"):
        choose(model, "fast")


def test_a_stream_of_the_server_writes_what_a_file_does(trained: Trained) -> None:
    online = ReferenceRecognizer(load(trained.eager))
    samples = rounded(samples_of(read(trained.test)[0]))
    with running(online) as server:
        heard = say(server.url, START, pcm(samples), END)
    assert heard.types[-1] == "final"
    assert (heard.text, heard.times) == written(online, samples)
    assert phones_of(heard.text) <= set(PHONES_61)
    assert heard.text


def test_a_manifest_without_phones_is_refused(trained: Trained, tmp_path: Path) -> None:
    rows = rows_of(trained.test)
    del rows[1]["phones"]
    write_rows(tmp_path / "train.jsonl", rows)
    recipe = replace(trained.recipe, corpora=(Corpus(tmp_path / "train.jsonl", 1.0),))
    with pytest.raises(ValueError, match=f"expected phones in the manifest.*{rows[1]['id']}"):
        train(recipe, tmp_path / "run")


def test_the_attention_is_drawn_phone_by_phone(trained: Trained, tmp_path: Path) -> None:
    recording = tmp_path / "long.wav"
    soundfile.write(recording, noise(3, 2.0), 16_000)
    few, many = tmp_path / "few.svg", tmp_path / "many.svg"
    shared = ["--checkpoint", str(trained.eager), "--out"]
    assert cli.main(["align", str(recording), "--text", "h# sh iy", *shared, str(few)]) == 0
    assert cli.main(["align", str(recording), *shared, str(many)]) == 0
    assert ">sh<" in few.read_text()
    assert ">h# sh iy<" in few.read_text()  # the title
    assert any(f">{phone}<" in many.read_text() for phone in PHONES_61)
