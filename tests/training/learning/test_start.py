"""Runs that begin with the weights of a checkpoint, or with parts of one."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.model import checkpoint, checkpoint_reader
from cortado.model.attention import AttentionConfig
from cortado.model.config import DecoderConfig, FeatureConfig, RecognizerConfig
from cortado.model.search import source_model as letters
from cortado.model.vocabulary import Vocabulary
from cortado.tests.training.learning.test_trainer import trainer
from cortado.tests.training.tiny import MODEL, RECIPES, fresh, recipe
from cortado.training.data import manifest as manifests
from cortado.training.language import source_model
from cortado.training.learning.recipe import PARTS, Part, read
from cortado.training.learning.start import begin_from

WITHOUT_DECODER: tuple[Part, ...] = ("features", "encoder", "ctc")
SOFT = replace(MODEL, decoder=DecoderConfig(8, 4, AttentionConfig(8, kind="soft")))
CTC = replace(MODEL, decoder=DecoderConfig(kind="ctc"))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the tiny model, with statistics that no corpus of tones has."""
    model = fresh(seed=5)
    model.features.normalizer.mean.fill_(3.0)
    folder = tmp_path_factory.mktemp("start")
    checkpoint.save(model, folder)
    return folder


def test_a_run_begins_with_every_weight_and_statistic_of_its_start(
    start: Path, manifest: Path, tmp_path: Path
) -> None:
    run = trainer(replace(recipe(manifest), start=start), tmp_path)
    wanted = checkpoint.load(start).state_dict()
    for model in (run.model, run.average):
        found = model.state_dict()
        assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_a_run_that_is_resumed_does_not_begin_again(
    start: Path, manifest: Path, tmp_path: Path
) -> None:
    wanted = replace(recipe(manifest), start=start)
    first = trainer(replace(wanted, stages=wanted.stages[:1]), tmp_path)
    first.run(None)
    moved = first.model.state_dict()
    again = trainer(replace(wanted, start=tmp_path / "gone"), tmp_path).model.state_dict()
    assert all(torch.equal(again[name], value) for name, value in moved.items())
    assert not torch.equal(moved["ctc.weight"], checkpoint.load(start).state_dict()["ctc.weight"])


def test_a_decoder_keeps_what_its_start_has_learnt_of_letters(
    start: Path, manifest: Path, tmp_path: Path
) -> None:
    symbols = MODEL.vocabulary.names
    learnt = source_model.estimate(["else", "where"], symbols)
    shutil.copytree(start, tmp_path / "start")
    source_model.write(tmp_path / "start" / letters.FILE, learnt)
    wanted = replace(recipe(manifest), start=tmp_path / "start")
    parts = {"kept": wanted, "new": replace(wanted, start_parts=WITHOUT_DECODER)}
    found = {}
    for name, one in parts.items():
        trainer(one, tmp_path / name).run(None)
        found[name], _ = letters.read(tmp_path / name / "checkpoint" / letters.FILE, len(symbols))
    own = source_model.estimate((one.text for one in manifests.read(manifest)), symbols)
    assert np.abs(found["kept"] - learnt).max() < 1e-2
    assert np.abs(found["new"] - own).max() < 1e-2
    assert np.abs(own - learnt).max() > 1


@pytest.mark.parametrize("config", [SOFT, CTC], ids=["soft", "ctc"])
def test_what_is_no_part_of_the_start_begins_new(
    start: Path, config: RecognizerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    model, untouched = fresh(config), fresh(config).state_dict()
    with caplog.at_level("INFO"):
        begin_from(model, start, WITHOUT_DECODER)
    assert caplog.messages == [
        f"{start}: begins with its features, encoder, ctc",
        f"{start}: leaves out its decoder",
    ]
    given = checkpoint.load(start).state_dict()
    for name, value in model.state_dict().items():
        wanted = untouched if name.startswith("decoder.") else given
        assert torch.equal(value, wanted[name]), name


def test_the_start_may_have_been_trained_without_a_decoder(tmp_path: Path) -> None:
    checkpoint.save(fresh(CTC, seed=5), tmp_path)
    model = fresh()
    begin_from(model, tmp_path, WITHOUT_DECODER)
    given = checkpoint.load(tmp_path).state_dict()
    assert torch.equal(model.state_dict()["ctc.weight"], given["ctc.weight"])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (SOFT, r"expected decoder.\S+ of shape .* got .*; without 'decoder' in start_parts it is"),
        (CTC, r"expected decoder.\S+ of shape none to start from, got "),
        (
            replace(MODEL, encoder=replace(MODEL.encoder, width=16)),
            r"expected encoder.\S+ of shape .* got .*; without 'encoder' in start_parts",
        ),
        (
            replace(MODEL, vocabulary=Vocabulary("'abcdefghijklmnopqrstuvwxyz ")),
            r"expected the vocabulary .* without ctc and decoder in start_parts they are new",
        ),
        (
            replace(MODEL, features=FeatureConfig("fixed")),
            r"expected FeatureConfig\(.*'fixed'.* got FeatureConfig\(.*'running'",
        ),
    ],
    ids=["attention", "no decoder", "encoder", "vocabulary", "features"],
)
def test_a_start_that_does_not_fit_is_refused_and_nothing_is_changed(
    start: Path, config: RecognizerConfig, message: str
) -> None:
    model, untouched = fresh(config), fresh(config).state_dict()
    with pytest.raises(ValueError, match=message):
        begin_from(model, start, PARTS)
    assert all(torch.equal(model.state_dict()[name], untouched[name]) for name in untouched)


def test_a_start_that_is_shrunk_begins_between_its_weights_and_new_ones(start: Path) -> None:
    model, new, given = fresh(), fresh().state_dict(), checkpoint.load(start).state_dict()
    begin_from(model, start, PARTS, shrink=0.25)
    weights = dict(model.named_parameters())
    for name, value in model.state_dict().items():
        hears = name in weights and not name.startswith("decoder.")
        wanted = 0.25 * given[name] + 0.75 * new[name] if hears else given[name]
        torch.testing.assert_close(value, wanted)


def test_a_start_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a checkpoint at .*gone, got no model.json"):
        begin_from(fresh(), tmp_path / "gone", PARTS)


def test_the_recipe_of_fine_tuning_fits_the_shipped_model() -> None:
    recipe = read(RECIPES / "fine-tune.toml")
    assert recipe.start is not None
    assert recipe.start.resolve() == checkpoint_reader.DEFAULT.resolve()
    model = fresh(recipe.model)
    begin_from(model, recipe.start, recipe.start_parts)
    assert model.config == checkpoint.load().config  # of the search, too
    shipped = checkpoint.load().state_dict()
    assert all(torch.equal(shipped[name], value) for name, value in model.state_dict().items())


def test_frozen_weights_stay_as_they_are_and_the_others_learn(
    start: Path, manifest: Path, tmp_path: Path
) -> None:
    names = ("encoder.conv", "encoder.layers.0")
    run = trainer(replace(recipe(manifest), start=start, frozen=names), tmp_path)
    before = checkpoint.load(start).state_dict()
    run.run(None)
    changed = {
        name
        for name, weight in run.model.named_parameters()
        if not torch.equal(weight, before[name])
    }
    every = {name for name, _ in run.model.named_parameters()}
    assert changed == {name for name in every if not name.startswith(names)}


def test_a_frozen_name_that_no_weight_has_is_told_with_those_there_are(
    manifest: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"as .*encoder\.conv1.*, got 'encoder\.convs'"):
        trainer(replace(recipe(manifest), frozen=("encoder.convs",)), tmp_path)
    with pytest.raises(ValueError, match=r"expected weights that are trained, got all frozen"):
        trainer(replace(recipe(manifest), frozen=("",)), tmp_path)


@pytest.mark.parametrize("kind", ["bahdanau", "luong"])
@pytest.mark.parametrize("encoder", ["conv-lstm", "lstm"])
def test_a_wider_encoder_begins_by_computing_the_same(
    kind: str, encoder: str, tmp_path: Path
) -> None:
    old = replace(
        MODEL,
        encoder=replace(MODEL.encoder, layers=3, kind=encoder),  # type: ignore[arg-type]
        decoder=replace(MODEL.decoder, kind=kind),  # type: ignore[arg-type]
    )
    narrow = fresh(old, seed=5).eval()
    checkpoint.save(narrow, tmp_path)
    wide = fresh(replace(old, encoder=replace(old.encoder, width=12))).eval()
    with pytest.raises(ValueError, match="without 'encoder' in start_parts"):
        begin_from(wide, tmp_path, PARTS)
    begin_from(wide, tmp_path, PARTS, widen=True)
    logmel, targets = torch.randn(2, 40, 80) - 5, torch.randint(28, (2, 5))
    mask = torch.ones(2, 10, dtype=torch.bool)
    results = []
    for model in (narrow, wide):
        encoded = model.encode_logmel(logmel)
        decoded = model.decoder.teacher_forced(encoded, mask, targets)
        results.append((encoded[..., :8], model.ctc(encoded), decoded.logits, decoded.alpha))
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)
    results[1][1].sum().backward()
    heard = wide.ctc.weight.grad  # of the new units, too: they will be of use
    assert heard is not None
    assert heard[:, 8:].any()
