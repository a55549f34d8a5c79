"""Batches are a function of the seed and the step, and their padding is silence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.model.emission import FLUSH_STEPS
from cortado.model.features.framing import FRAMES_PER_STEP, MELS
from cortado.model.vocabulary import Vocabulary
from cortado.tests.training.tiny import PLAIN, TEXTS, corpus
from cortado.training.alignment.hmm import SILENCE
from cortado.training.data.augment import Augmentation
from cortado.training.data.batches import LEAD, POOL, SILENT, Drawn, Sampler, collate
from cortado.training.data.log_mel_cache import cached
from cortado.training.data.non_speech import FLOOR
from cortado.training.data.tied_states import UNKNOWN


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> Sampler:
    folder = tmp_path_factory.mktemp("batches")
    parts = [corpus(folder / "a", TEXTS), corpus(folder / "b", ["q", "queen"])]
    corpora = [cached(manifest, folder / "cache") for manifest in parts]
    return Sampler(corpora, [3.0, 1.0], Vocabulary(), 400, 1.0, 7)


def test_a_pool_is_a_function_of_the_seed_and_its_number(sampler: Sampler) -> None:
    config = Augmentation()
    assert sampler.pool(3, config) == sampler.pool(3, config)
    assert sampler.pool(3, config) != sampler.pool(4, config)
    assert sampler.pool(3, config) != replace(sampler, seed=8).pool(3, config)


def test_a_batch_is_a_function_of_the_seed_and_its_place(sampler: Sampler) -> None:
    config = Augmentation()
    drawn = sampler.pool(0, config)[0]
    one, again, other = (sampler.load(drawn, config, place) for place in (5, 5, 6))
    assert all(map(torch.equal, one[:4], again[:4]))
    assert one.logmel.shape != other.logmel.shape or not torch.equal(one.logmel, other.logmel)
    assert torch.equal(one.targets, other.targets)


def test_a_pool_draws_corpora_by_their_weights_and_leaves_out_what_is_long(
    sampler: Sampler,
) -> None:
    drawn = [one for batch in sampler.pool(0, Augmentation(silence=0.1)) for one in batch]
    assert len(drawn) == POOL
    counts = np.bincount([one.corpus + 1 for one in drawn]) / POOL
    np.testing.assert_allclose(counts, [0.1, 0.9 * 0.75, 0.9 * 0.25], atol=0.08)
    spoken = [one for one in drawn if one.corpus >= 0]
    assert (
        max(one.frames for one in spoken)
        <= 100
        < max(utterance.frames for utterance in sampler.corpora[0].utterances)
    )


def test_a_corpus_of_mostly_long_utterances_keeps_its_share(sampler: Sampler) -> None:
    frames = [one.frames for one in sampler.corpora[1].utterances]
    even, seconds = replace(sampler, weights=[1.0, 1.0]), min(frames) / 100
    assert min(frames) < max(frames)  # so one of its two, and one of the other corpus' ten
    batches = even.pool(0, PLAIN, seconds)
    drawn = [one for batch in batches for one in batch]
    assert max(one.frames for one in drawn) <= min(frames)
    assert np.mean([one.corpus for one in drawn]) == pytest.approx(0.5, abs=0.08)


def test_shifts_leave_out_the_first_frames(sampler: Sampler) -> None:
    drawn = [one for batch in sampler.pool(0, replace(PLAIN, shift=3)) for one in batch]
    assert {one.lead for one in drawn} == {0, -1, -2, -3}
    shifted = next(one for one in drawn if one.lead == -2)
    (plain,) = sampler.load([shifted._replace(lead=0)], PLAIN, 0).logmel
    (batch,) = sampler.load([shifted], PLAIN, 0).logmel
    np.testing.assert_array_equal(batch[: shifted.frames], plain[2 : shifted.frames + 2])


@pytest.mark.parametrize("trail", [0.0, 0.5])
def test_leads_and_trails_stand_around_utterances_in_every_view(
    sampler: Sampler, trail: float
) -> None:
    config = replace(PLAIN, lead=0.5, trail=trail)
    drawn = [one for batch in sampler.pool(0, config) for one in batch]
    for name, share in (("lead", 0.5), ("trail", trail)):
        lengths = [frames for one in drawn if (frames := getattr(one, name))]
        assert len(lengths) / len(drawn) == pytest.approx(share, abs=0.1)
        assert all(LEAD[0] <= frames < LEAD[1] for frames in lengths)
    one = next(one for one in drawn if one.lead and (one.trail or not trail))
    views = sampler.load([one], config, 3, views=2).logmel
    speech = sampler.corpora[one.corpus].logmel(one.utterance)
    behind = one.lead + len(speech)
    assert one.frames == behind + one.trail
    for view in views.numpy():
        np.testing.assert_array_equal(view[one.lead : behind], speech)
    assert not torch.equal(*views[:, : one.lead])
    assert not trail or not torch.equal(*views[:, behind : one.frames])


def test_states_of_an_utterance_keep_their_places_between_a_lead_and_a_trail(
    sampler: Sampler,
) -> None:
    states = [
        np.arange(sum(one.frames for one in corpus.utterances), dtype=np.int16)
        for corpus in sampler.corpora
    ]
    with_states = replace(sampler, states=states)
    step = FRAMES_PER_STEP
    frames = sampler.corpora[0].utterances[1].frames
    alone = Drawn(0, 1, frames)
    between = Drawn(0, 1, frames + 75 * step, 25 * step, 50 * step)
    (plain,), (inside,) = (
        found
        for one in (alone, between)
        if (found := with_states.load([one], PLAIN, 0).states) is not None
    )
    said = frames // step
    assert torch.equal(inside[25 : 25 + said], plain[:said])
    outside = torch.cat([inside[:25], inside[25 + said :]])
    assert len(outside) > 70
    assert (outside == UNKNOWN).all()


def test_batches_keep_within_their_budget_and_are_of_like_length(sampler: Sampler) -> None:
    batches = sampler.pool(0, PLAIN)
    longest = [max(one.frames for one in batch) for batch in batches]
    shortest = [min(one.frames for one in batch) for batch in batches]
    assert all(len(batch) * most <= 400 for batch, most in zip(batches, longest, strict=True))
    order = np.argsort(longest, kind="stable")
    assert not np.array_equal(order, np.arange(len(order)))  # batches come in random order
    kinds = {(low, high) for low, high in zip(shortest, longest, strict=True) if low != high}
    assert len(kinds) <= 5  # six lengths, sorted: few batches hold two


def test_a_batch_holds_no_more_utterances_than_it_may(sampler: Sampler) -> None:
    few = replace(sampler, batch_frames=10**9, max_utterances=4).pool(0, PLAIN)
    assert {len(batch) for batch in few} == {4}
    assert sum(map(len, few)) == POOL


def test_two_views_share_their_tempo_and_half_the_room(sampler: Sampler) -> None:
    config = Augmentation(tempo=0.3, silence=0.2)
    pools = [sampler.pool(0, config, views=views) for views in (1, 2)]
    assert all(2 * sum(one.frames for one in batch) <= 400 for batch in pools[1] if len(batch) > 1)
    assert sum(map(len, pools[1])) == POOL > len(pools[1]) > len(pools[0])
    drawn = [Drawn(0, 2, 36), Drawn(-1, 3, 300), Drawn(1, 1, 60)]
    batch = sampler.load(drawn, config, 0, views=2)
    for both in batch[1:4]:
        assert torch.equal(both[:3], both[3:])
    one, other = batch.logmel.chunk(2)
    assert not torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])  # where nobody speaks
    for x in sampler.load(drawn, PLAIN, 0, views=2)[:4]:
        assert torch.equal(x[:3], x[3:])
    assert {len(batch) for batch in replace(sampler, max_utterances=5).pool(0, PLAIN, views=2)} <= {
        1,
        2,
    }


def test_a_batch_holds_each_utterance_with_its_text(sampler: Sampler) -> None:
    batch = sampler.load([Drawn(0, 2, 36), Drawn(1, 1, 60), Drawn(-1, 0, 300)], PLAIN, 0)
    texts = [
        sampler.vocabulary.decode(row[:count].tolist())
        for row, count in zip(batch.targets, batch.target_lengths.tolist(), strict=True)
    ]
    assert texts == ["bee", "queen", ""]
    wanted = torch.from_numpy(sampler.corpora[0].logmel(2))
    torch.testing.assert_close(batch.logmel[0, : len(wanted)], wanted)


def test_padding_is_the_silence_at_a_stream_s_end() -> None:
    frames = [np.zeros((length, MELS), np.float32) for length in (9, 4, 1)]
    batch = collate(frames, [[1, 2, 3], [], [4]])
    assert batch.lengths.tolist() == [3 + FLUSH_STEPS, 1 + FLUSH_STEPS, 1 + FLUSH_STEPS]
    assert batch.logmel.shape == (3, (3 + FLUSH_STEPS) * FRAMES_PER_STEP, MELS)
    for row, length in enumerate((9, 4, 1)):
        assert not batch.logmel[row, :length].any()
        assert (batch.logmel[row, length:] == FLOOR).all()
    assert batch.targets.tolist() == [[1, 2, 3], [0, 0, 0], [4, 0, 0]]
    assert batch.target_lengths.tolist() == [3, 0, 1]


def test_a_batch_of_silence_has_an_empty_text(sampler: Sampler) -> None:
    batch = sampler.load([Drawn(-1, 0, 300)], Augmentation(), 0)
    assert batch.target_lengths.tolist() == [0]
    assert batch.targets.shape == (1, 1)


def test_silences_are_as_long_as_they_are_sorted_and_budgeted(sampler: Sampler) -> None:
    config = replace(PLAIN, silence=0.5)
    batches = sampler.pool(0, config)
    silent = [one for batch in batches for one in batch if one.corpus < 0]
    lengths = [one.frames for one in silent]
    assert SILENT[0] <= min(lengths) < SILENT[0] + 20
    assert SILENT[1] - 20 < max(lengths) < SILENT[1]
    assert any(len({one.corpus < 0 for one in batch}) == 2 for batch in batches)
    for one in silent[:5]:
        assert sampler.load([one], config, 0).lengths.tolist() == [
            -(-one.frames // FRAMES_PER_STEP) + FLUSH_STEPS
        ]


def test_a_corpus_of_nothing_but_long_utterances_is_refused(sampler: Sampler) -> None:
    with pytest.raises(ValueError, match=r"expected an utterance of at most 0\.05 s.*got none"):
        replace(sampler, max_seconds=0.05)


def test_fewer_batches_than_processes_are_refused(sampler: Sampler) -> None:
    greedy = replace(sampler, batch_frames=10**9, processes=2)
    with pytest.raises(ValueError, match="expected a batch for each of 2 processes, got 1"):
        greedy.pool(0, PLAIN)


def test_a_stage_may_leave_out_what_is_longer(sampler: Sampler) -> None:
    drawn = [one for batch in sampler.pool(0, PLAIN, max_seconds=0.5) for one in batch]
    assert drawn
    assert max(one.frames for one in drawn) <= 50
    with pytest.raises(ValueError, match=r"at most 0\.05 s in each corpus"):
        sampler.pool(0, PLAIN, max_seconds=0.05)
    assert replace(sampler, weights=[0.0, 1.0]).pool(0, PLAIN, max_seconds=0.2)


def test_utterances_follow_another_of_their_speaker_behind_a_pause(sampler: Sampler) -> None:
    step = FRAMES_PER_STEP
    states = [
        np.arange(1, 1 + sum(one.frames for one in corpus.utterances), dtype=np.int16)
        for corpus in sampler.corpora
    ]
    following = replace(sampler, states=states, max_seconds=3.0)
    config = replace(PLAIN, follow=0.5, lead=0.3)
    drawn = [one for batch in following.pool(0, config) for one in batch]
    behind = [one for one in drawn if one.after is not None]
    assert 0.2 < len(behind) / len(drawn) < 0.5  # some are too long
    assert max(one.frames for one in behind) <= 300
    one = next(one for one in behind if not one.lead and one.pause > 2 * step)
    assert one.after is not None
    utterances, logmel = sampler.corpora[one.corpus].utterances, sampler.corpora[one.corpus].logmel
    before, own = logmel(one.after), logmel(one.utterance)
    assert one.frames == len(before) + one.pause + len(own)
    batch = following.load([one], PLAIN, 0, views=2)
    for view in batch.logmel.numpy():
        np.testing.assert_array_equal(view[: len(before)], before)
        np.testing.assert_array_equal(view[len(before) + one.pause : one.frames], own)
        for frame in view[len(before) : len(before) + one.pause]:
            assert (frame == own).all(1).any()
    text = f"{utterances[one.after].text} {utterances[one.utterance].text}"
    assert sampler.vocabulary.decode(batch.targets[0].tolist()) == text
    assert batch.states is not None
    first, second = (utterances[k].start for k in (one.after, one.utterance))
    told = [1 + first + k if k < len(before) else SILENCE for k in range(len(before) + one.pause)]
    told += [1 + second + k for k in range(len(own))]
    assert batch.states[0, : one.frames // step].tolist() == told[step - 1 :: step]


def test_nobody_follows_a_stranger(tmp_path: Path) -> None:
    manifest = corpus(tmp_path, speakers=["unknown"])
    alone = Sampler([cached(manifest, tmp_path / "cache")], [1.0], Vocabulary(), 400, 9.0, 7)
    drawn = [one for batch in alone.pool(0, replace(PLAIN, follow=1.0)) for one in batch]
    assert all(one.after is None for one in drawn)
