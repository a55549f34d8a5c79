"""Phones are learnt by a layer of the encoder, in runs that resume and agree, and are not kept."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from cortado.model import checkpoint
from cortado.model.config import EncoderConfig
from cortado.model.recognizer import Recognizer
from cortado.model.vocabulary import Vocabulary
from cortado.tests.training.learning.test_trainer import Killed, Killer, equal, tensors
from cortado.tests.training.tiny import MODEL, PLAIN, TEXTS, corpus, recipe
from cortado.training.data.batches import Batch, Drawn, Phones, Sampler, collate
from cortado.training.data.log_mel_cache import cached
from cortado.training.data.pronounce import PHONES, Lexicon
from cortado.training.learning.phone_loss import PhoneHead
from cortado.training.learning.recipe import Recipe, Stage
from cortado.training.learning.run import train
from cortado.training.learning.snapshot import snapshots
from cortado.training.learning.trainer import Trainer

# As if each letter were a phone; "x" has none.
WORDS = {word: [ord(letter) % 40 for letter in word] for text in TEXTS for word in text.split()}
LEXICON = Lexicon(WORDS | {"x": []})


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("tones"))


def phonetic(manifest: Path) -> Recipe:
    """The tiny run, of which both stages hear phones."""
    tiny = recipe(manifest)
    return replace(
        tiny, stages=tuple(replace(stage, phones=0.3) for stage in tiny.stages), phone_layer=1
    )


def trainer(wanted: Recipe, output: Path, lexicon: Lexicon | None = LEXICON) -> Trainer:
    manifest = wanted.corpora[0].manifest
    return Trainer(wanted, [cached(manifest, manifest.parent / "cache")], output, lexicon)


@pytest.fixture(scope="module")
def uninterrupted(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("uninterrupted")
    trainer(phonetic(manifest), output).run(None)
    return output


def noise(phones: list[list[int]], frames: int = 40) -> Batch:
    random = np.random.default_rng(0)
    heard = [random.normal(-5, 2, (frames, 80)).astype(np.float32) for _ in phones]
    batch = collate(heard, [[1]] * len(phones))
    targets = torch.zeros(len(phones), max(1, *map(len, phones)), dtype=torch.long)
    for row, one in zip(targets, phones, strict=True):
        row[: len(one)] = torch.tensor(one)
    return batch._replace(phones=Phones(targets, torch.tensor([len(one) for one in phones])))


def heard_by(head: PhoneHead, model: Recognizer, batch: Batch) -> Tensor:
    with head.listening(model) as heard:
        model.encode_logmel(batch.logmel)
    (said,) = heard
    return said


def test_a_batch_has_the_phones_of_its_texts(manifest: Path) -> None:
    tones = cached(manifest, manifest.parent / "cache")
    sampler = Sampler([tones], [1.0], Vocabulary(), 400, 9.0, 7, lexicon=LEXICON)
    batch = sampler.load([Drawn(0, 0, 60), Drawn(0, 5, 12), Drawn(-1, 0, 300)], PLAIN, 0)
    assert batch.phones is not None
    assert batch.phones.lengths.tolist() == [4, 0, 0]  # "a cat", "x", silence
    assert batch.phones.targets[0].tolist() == [*WORDS["a"], *WORDS["cat"]]
    assert replace(sampler, lexicon=None).load([Drawn(0, 0, 60)], PLAIN, 0).phones is None


def paths(phones: Sequence[int], frames: int) -> Tensor:
    """All paths (N, T) of a few symbols and the blank that write the phones."""
    blank = len(PHONES)
    every = torch.cartesian_prod(*[torch.tensor([blank, *sorted(set(phones))])] * frames)
    written = [[k for k, _ in groupby(path) if k != blank] for path in every.tolist()]
    return every[[one == list(phones) for one in written]]


def test_the_loss_is_that_of_all_paths_for_each_phone() -> None:
    torch.manual_seed(0)
    head = PhoneHead(8, 1)
    batch = noise([[3, 7], [7], []], 4)
    batch = batch._replace(lengths=torch.tensor([4, 3, 4]))
    heard = torch.randn(3, batch.logmel.shape[1] // 4, 8)
    log_probs = head.output(heard).log_softmax(2).detach()
    expected = 0.0
    for row, (phones, frames) in enumerate([([3, 7], 4), ([7], 3)]):
        scores = log_probs[row, torch.arange(frames), paths(phones, frames)].sum(1)
        expected -= float(scores.logsumexp(0))
    assert head.loss(heard, batch).item() == pytest.approx(expected / 3, rel=1e-5)


def test_a_batch_without_phones_has_no_loss_but_gradients_of_zero() -> None:
    torch.manual_seed(0)
    model, head = Recognizer(MODEL), PhoneHead(8, 1)
    batch = noise([[], []])
    loss = head.loss(heard_by(head, model, batch), batch)
    assert loss.item() == 0
    loss.backward()
    assert all(p.grad is not None and not p.grad.any() for p in head.parameters())


def test_an_utterance_too_short_for_its_phones_counts_nothing() -> None:
    torch.manual_seed(0)
    model, head = Recognizer(MODEL), PhoneHead(8, 1)
    batch = noise([[1, 2] * 50])
    loss = head.loss(heard_by(head, model, batch), batch)
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())


@pytest.mark.parametrize("kind", ["conv-lstm", "lstm"])
@pytest.mark.parametrize("layer", [1, 2, 3])
def test_the_layers_up_to_the_one_that_hears_learn_and_no_others(kind: str, layer: int) -> None:
    torch.manual_seed(0)
    encoder = EncoderConfig(channels=2, width=8, layers=3, kind=kind)  # type: ignore[arg-type]
    model, head = Recognizer(replace(MODEL, encoder=encoder)), PhoneHead(8, layer)
    batch = noise([[1, 2, 3], [4]])
    heard = heard_by(head, model, batch)
    frames = batch.logmel.shape[1] // 4
    assert heard.shape[1] == frames * ({1: 4, 2: 2, 3: 1}[layer] if kind == "lstm" else 1)
    head.loss(heard, batch).backward()
    learning = [all(p.grad is not None for p in one.parameters()) for one in model.encoder.layers]
    assert learning == [number <= layer for number in (1, 2, 3)]
    heard_by(head, model, batch)
    assert not model.encoder.layers[layer - 1]._forward_hooks


def test_the_phones_loss_falls_and_the_layer_hears_them(manifest: Path, tmp_path: Path) -> None:
    stage = Stage("phones", 40, ctc=0.0, phones=1.0, augmentation=PLAIN)
    wanted = replace(phonetic(manifest), stages=(stage,), interval=1000)
    run = trainer(wanted, tmp_path)
    before = run.model.encoder.layers[0].dense.weight.detach().clone()
    run.model.train()
    found = []
    for _, batch in zip(range(40), run._batches(stage), strict=False):
        found.append(run._update(batch, stage, 1e-2)["phones"])
        run.step += 1
    assert sum(found[-5:]) < 0.6 * sum(found[:5])
    assert not torch.equal(run.model.encoder.layers[0].dense.weight, before)


@pytest.mark.parametrize("kills", [[1], [3, 6]])
def test_a_run_with_phones_killed_and_resumed_is_the_uninterrupted_one(
    manifest: Path, uninterrupted: Path, tmp_path: Path, kills: list[int]
) -> None:
    for step in kills:
        with pytest.raises(Killed):
            trainer(phonetic(manifest), tmp_path).run(Killer(step))
    trainer(phonetic(manifest), tmp_path).run(None)
    assert equal(tensors(tmp_path), tensors(uninterrupted))
    weights = "checkpoint/model.safetensors"
    assert (tmp_path / weights).read_bytes() == (uninterrupted / weights).read_bytes()


def test_nothing_of_the_phones_is_in_the_checkpoint(uninterrupted: Path) -> None:
    assert "phones/output.weight" in tensors(uninterrupted)
    kept = checkpoint.load(uninterrupted / "checkpoint")
    assert kept.state_dict().keys() == Recognizer(MODEL).state_dict().keys()


def test_a_run_takes_phones_up_and_leaves_them_again(manifest: Path, tmp_path: Path) -> None:
    plain = recipe(manifest)
    first, second = plain.stages
    third = replace(second, name="without", steps=2)
    trainer(replace(plain, stages=(first,)), tmp_path, None).run(None)
    assert not any(name.startswith("phones/") for name in tensors(tmp_path))
    heard = replace(plain, stages=(first, replace(second, phones=0.3)), phone_layer=1)
    trainer(heard, tmp_path).run(None)
    learnt = tensors(tmp_path)
    assert learnt["phones/output.weight"].any()
    run = trainer(replace(plain, stages=(first, second, third)), tmp_path, None)
    assert run.step == 7
    moments = run.optimizer.state_dict()["state"]
    assert len(moments) == len(list(run.model.parameters()))
    run.run(None)
    assert snapshots(tmp_path)[-1].name == "snapshot-00000009"
    assert not any(name.startswith("phones/") for name in tensors(tmp_path))


def test_a_recipe_that_hears_phones_needs_the_layer_the_words_and_a_lexicon(
    manifest: Path, tmp_path: Path
) -> None:
    wanted = phonetic(manifest)
    with pytest.raises(ValueError, match="expected a phone_layer among the 1 of the encoder"):
        replace(wanted, phone_layer=2)
    with pytest.raises(ValueError, match="expected a vocabulary of characters"):
        replace(wanted, model=replace(MODEL, vocabulary=Vocabulary(phones=("sh", "iy"))))
    with pytest.raises(ValueError, match="expected a lexicon"):
        trainer(wanted, tmp_path, None)


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
@pytest.mark.timeout(900)
def test_two_processes_of_the_command_s_run_hear_phones(manifest: Path, tmp_path: Path) -> None:
    wanted = replace(phonetic(manifest), validation=())
    train(wanted, tmp_path, processes=2)
    assert (tmp_path / "cache" / "pronunciations.json").exists()
    found = tensors(tmp_path)
    head = [name for name in found if name.startswith("phones/")]
    assert len(head) == 2
    counts = {int(found[name]) for name in found if name.endswith("/step")}
    assert counts == {4, 7}  # the decoder's begin with the stage that trains it
