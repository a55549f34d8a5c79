"""The encoder learns tied states of phones, in runs that resume and agree; they do not ship."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cortado.model import checkpoint
from cortado.model.recognizer import Recognizer
from cortado.model.vocabulary import Vocabulary
from cortado.tests import needs
from cortado.tests.training.learning.test_trainer import Killed, Killer, course, equal, tensors
from cortado.tests.training.tiny import MODEL, PLAIN, letters_as_states, recipe
from cortado.training.data.batches import Drawn, Sampler
from cortado.training.data.log_mel_cache import CachedCorpus, CachedUtterance, cached
from cortado.training.data.pronounce import PHONES
from cortado.training.data.tied_states import (
    UNKNOWN,
    States,
    aligner,
    encoder_targets,
    retimed_states,
    states_of,
)
from cortado.training.learning.recipe import Recipe
from cortado.training.learning.run import train
from cortado.training.learning.snapshot import snapshots
from cortado.training.learning.stage import Stage
from cortado.training.learning.state_loss import SMOOTHING, PhoneLosses, frame_loss
from cortado.training.learning.trainer import Trainer

LOOKAHEAD = 11  # frames of 10 ms


@pytest.fixture(scope="module")
def tones(manifest: Path) -> CachedCorpus:
    return cached(manifest, manifest.parent / "cache")


@pytest.fixture(scope="module")
def states(tones: CachedCorpus) -> States:
    return letters_as_states(tones)


def learning(manifest: Path) -> Recipe:
    """The tiny run, of which both stages learn states."""
    tiny = recipe(manifest)
    return replace(tiny, stages=tuple(replace(stage, states=0.3) for stage in tiny.stages))


def trainer(wanted: Recipe, output: Path, tones: CachedCorpus, *states: States) -> Trainer:
    return Trainer(wanted, [tones], output, states)


@pytest.fixture(scope="module")
def uninterrupted(
    manifest: Path, tones: CachedCorpus, states: States, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    output = tmp_path_factory.mktemp("uninterrupted")
    trainer(learning(manifest), output, tones, states).run(None)
    return output


def test_an_encoder_frame_tells_what_was_said_a_little_before() -> None:
    delay = 9
    states = np.arange(100, 140, dtype=np.int16)
    utterance = CachedUtterance("a", "x", 10, 24)
    plain = encoder_targets(retimed_states(states, utterance, 24), 0, LOOKAHEAD)
    assert plain.tolist() == [
        *[UNKNOWN] * 2,
        *(100 + 10 + 4 * step + 3 - delay for step in range(2, 6)),
    ]
    late = encoder_targets(retimed_states(states, utterance, 24), 8, LOOKAHEAD)
    assert late.tolist() == [UNKNOWN, UNKNOWN, *plain]
    waiting = encoder_targets(retimed_states(states, utterance, 24), 0, LOOKAHEAD, 8)
    assert waiting.tolist() == [UNKNOWN, UNKNOWN, *plain[:-2]]
    two_left_out = encoder_targets(retimed_states(states, utterance, 24), -2, LOOKAHEAD)
    assert two_left_out.tolist() == [UNKNOWN, *(100 + 10 + 4 * n + 5 - delay for n in range(1, 5))]
    slow = encoder_targets(retimed_states(states, utterance, 48), 0, LOOKAHEAD)  # at half the tempo
    assert slow[2:].tolist() == [110 + (4 * step + 3 - delay) // 2 for step in range(2, 12)]


def test_a_batch_has_the_states_of_its_frames(tones: CachedCorpus, states: States) -> None:
    sampler = Sampler(
        [tones], [1.0], Vocabulary(), 4000, 9.0, 7, states=[states], lookahead=LOOKAHEAD
    )
    drawn = [Drawn(0, 0, 60)]
    one, late = (
        each.load(drawn, PLAIN, 0).states for each in (sampler, replace(sampler, phone_delay=8))
    )
    assert one is not None
    assert late is not None
    assert torch.equal(late[:, 2:15], one[:, :13])  # of the 60 frames that are no padding
    batch = sampler.load([Drawn(0, 0, 60), Drawn(0, 4, 24), Drawn(-1, 0, 300)], PLAIN, 0)
    assert batch.states is not None
    assert batch.states.shape == (3, batch.logmel.shape[1] // 4)
    texts = [tones.utterances[k].text for k in (0, 4)]
    for row, text in zip(batch.states, texts, strict=False):
        known = row[row != UNKNOWN].unique_consecutive().tolist()
        assert known == [ord(letter) % 32 for letter in text]
    assert (batch.states[2] == UNKNOWN).all()
    assert replace(sampler, states=()).load([Drawn(0, 0, 60)], PLAIN, 0).states is None


def test_the_loss_is_the_mean_over_aligned_frames() -> None:
    torch.manual_seed(0)
    head = nn.Linear(8, 5)
    encoded = torch.randn(2, 3, 8)
    states = torch.tensor([[1, UNKNOWN, 4], [UNKNOWN, 0, UNKNOWN]])
    log_probs = head(encoded).log_softmax(2)
    each = [log_probs[0, 0, 1], log_probs[0, 2, 4], log_probs[1, 1, 0]]
    spread = [log_probs[0, 0], log_probs[0, 2], log_probs[1, 1]]
    expected = -(1 - SMOOTHING) * sum(each) / 3 - SMOOTHING * torch.stack(spread).mean()
    # bf16 where that is faster
    torch.testing.assert_close(frame_loss(head, encoded, states), expected, rtol=0.01, atol=0)
    none = frame_loss(head, encoded, torch.full((2, 3), UNKNOWN))
    assert none.item() == 0


def test_the_head_has_all_of_the_aligner_s_states_whatever_the_corpora_have(manifest: Path) -> None:
    few = np.array([0, 1], np.int16)
    losses = PhoneLosses(learning(manifest), [few], [0, 1, 1, 2], torch.device("cpu"))
    assert losses.head.output.out_features == 4


def test_the_loss_falls_and_all_of_the_encoder_learns(
    manifest: Path, tones: CachedCorpus, states: States, tmp_path: Path
) -> None:
    stage = Stage("states", 40, ctc=0.0, states=1.0, augmentation=PLAIN)
    run = trainer(replace(learning(manifest), stages=(stage,)), tmp_path, tones, states)
    before = {name: value.clone() for name, value in run.model.encoder.named_parameters()}
    found = course(run, stage, "states")
    assert sum(found[-5:]) < 0.8 * sum(found[:5])
    for name, value in run.model.encoder.named_parameters():
        assert not torch.equal(value, before[name]), name


def test_a_run_that_is_killed_and_resumed_is_the_uninterrupted_one(
    manifest: Path, tones: CachedCorpus, states: States, uninterrupted: Path, tmp_path: Path
) -> None:
    for step in (3, 6):
        with pytest.raises(Killed):
            trainer(learning(manifest), tmp_path, tones, states).run(Killer(step))
    trainer(learning(manifest), tmp_path, tones, states).run(None)
    assert equal(tensors(tmp_path), tensors(uninterrupted))


def test_the_head_is_not_in_the_checkpoint(uninterrupted: Path) -> None:
    assert "states/output.weight" in tensors(uninterrupted)
    saved = checkpoint.load(uninterrupted / "checkpoint")
    assert saved.state_dict().keys() == Recognizer(MODEL).state_dict().keys()


def test_a_run_takes_states_up_and_leaves_them_again(
    manifest: Path, tones: CachedCorpus, states: States, tmp_path: Path
) -> None:
    plain = recipe(manifest)
    first, second = plain.stages
    trainer(replace(plain, stages=(first,)), tmp_path, tones).run(None)
    assert not any(name.startswith("states/") for name in tensors(tmp_path))
    both = replace(plain, stages=(first, replace(second, states=0.3)))
    trainer(both, tmp_path, tones, states).run(None)
    assert tensors(tmp_path)["states/output.weight"].any()
    third = replace(second, name="without", steps=2)
    run = trainer(replace(plain, stages=(first, second, third)), tmp_path, tones)
    assert len(run.optimizers["optimizer"].state_dict()["state"]) == len(
        list(run.model.parameters())
    )
    run.run(None)
    assert snapshots(tmp_path)[-1].name == "snapshot-00000009"
    assert not any(name.startswith("states/") for name in tensors(tmp_path))


def test_a_recipe_that_learns_states_needs_them_and_words(
    manifest: Path, tones: CachedCorpus, tmp_path: Path
) -> None:
    wanted = learning(manifest)
    with pytest.raises(ValueError, match="expected a vocabulary of characters"):
        replace(wanted, model=replace(MODEL, vocabulary=Vocabulary(phones=("sh", "iy"))))
    with pytest.raises(ValueError, match="expected the tied states"):
        trainer(wanted, tmp_path, tones)


def test_an_alignment_is_found_once_and_kept(tones: CachedCorpus, tmp_path: Path) -> None:
    letters = {one for u in tones.utterances for one in u.text if one.isalpha()}
    words = {word for u in tones.utterances for word in u.text.split()}
    number = {letter: k for k, letter in enumerate(sorted(letters))}
    lexicon = {w: [number[c] for c in w if c in number] for w in words} | {"no": []}
    path = tmp_path / "triphones.safetensors"
    found = aligner([tones], lexicon, path, 60)
    assert path.exists()
    assert found.states > len(PHONES)
    states = states_of(tones, found, lexicon)
    assert len(states) == sum(u.frames for u in tones.utterances)
    for utterance in tones.utterances:
        own = states[utterance.start : utterance.start + utterance.frames]
        assert (own == UNKNOWN).all() == (utterance.text == "no")
    again = states_of(tones, aligner([], lexicon, path, 60), lexicon)
    assert np.array_equal(again, states)
    first, *others = tones.utterances
    corrected = CachedCorpus(tones.folder, [replace(first, text="no"), *others], tones.bands)
    anew = states_of(corrected, found, lexicon)
    assert (anew[first.start : first.start + first.frames] == UNKNOWN).all()
    path.unlink()
    turned = {word: [len(number) - 1 - phone for phone in said] for word, said in lexicon.items()}
    another = aligner([tones], turned, path, 60)  # the states of the first are not kept for it
    assert not np.array_equal(states_of(tones, another, turned), states)


@needs.espeak
def test_a_whole_run_finds_its_own_states(manifest: Path, tmp_path: Path) -> None:
    train(learning(manifest), tmp_path / "run")
    assert (tmp_path / "run" / "cache" / "triphones.safetensors").exists()
    assert "states/output.weight" in tensors(tmp_path / "run")
