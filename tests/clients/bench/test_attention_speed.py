"""The attention benchmark: that its kernels compute what they time, and what it reports."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.clients.bench.attention import decoding, learning, report, step
from cortado.clients.bench.attention.decoding import Curve, Drawn, attend, drawn
from cortado.clients.bench.attention.kernels import Array
from cortado.model.attention.expected_alignment import expected_alignment, first_alignment


def nobody(what: str, done: int, total: int) -> None:
    """Take a report of progress."""


def energies(queries: Array, keys: Array, direction: Array, additive: bool) -> Array:
    """(U, T) in float64."""
    if additive:
        return np.tanh(queries[:, None].astype(float) + keys) @ direction
    return queries.astype(float) @ keys.T


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


def contexts(chunk: int | None, additive: bool, data: Drawn) -> Array:
    """(U, d) by the definition, in float64."""
    scores = energies(data.queries, data.keys, data.direction, additive)
    if chunk is None:
        return np.stack([softmax(row) @ data.values for row in scores])
    chunk_scores = energies(data.chunk_queries, data.chunk_keys, data.direction, additive)
    j, found = 0, []
    for row, others in zip(scores, chunk_scores, strict=True):
        while j < len(row) - 1 and row[j] < 0:
            j += 1
        first = max(0, j - chunk + 1)
        found.append(softmax(others[first : j + 1]) @ data.values[first : j + 1])
    return np.stack(found)


@pytest.mark.parametrize("additive", [True, False])
@pytest.mark.parametrize("chunk", [None, 1, 2, 4, 8])
@pytest.mark.parametrize("length", [1, 2, 5, 40])
def test_what_is_timed_is_the_attention(chunk: int | None, additive: bool, length: int) -> None:
    data = drawn(length, 3, additive)
    attend(chunk, additive, data, 2)
    wanted = contexts(chunk, additive, data)
    np.testing.assert_allclose(data.contexts, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("additive", [True, False])
def test_stops_advance_by_about_one_frame_a_symbol(additive: bool) -> None:
    rates = []
    for seed in range(10):
        data = drawn(200, seed, additive)
        scores = energies(data.queries[:100], data.keys, data.direction, additive)
        j = 0
        for row in scores:
            while j < 199 and row[j] < 0:
                j += 1
        rates.append(j / 100)
    assert np.mean(rates) == pytest.approx(1, abs=0.2)


def test_the_closed_form_is_exact_on_short_inputs_and_wrong_on_long_ones() -> None:
    torch.manual_seed(0)
    for frames, wrong in ((50, False), (2000, True)):
        alpha = closed = first_alignment(2, frames)
        for _ in range(40):
            p = (torch.randn(2, frames) - 4).sigmoid()
            alpha, closed = expected_alignment(p, alpha), learning.closed_form(p, closed)
        assert (float((alpha - closed).abs().max()) > 1e-3) == wrong


def test_the_exponent_is_the_slope_in_logarithms() -> None:
    lengths = (10, 20, 40, 80)
    quadratic = Curve("soft", "dot", lengths, 1, tuple(3.0 * n**2 for n in lengths))
    assert quadratic.exponent == pytest.approx(2)
    assert quadratic.at(20) == 1200


def test_soft_attention_grows_faster_than_monotonic_attention() -> None:
    curves = decoding.measure(nobody, trials=10, lengths=(25, 50, 100, 200))
    for energy in decoding.ENERGIES:
        by_name = {one.attention: one for one in curves if one.energy == energy}
        # 2 and 1 in theory; other work on the machine moves both.
        assert by_name["soft"].exponent > by_name["monotonic"].exponent + 0.3
        assert by_name["MoChA w = 2"].at(200) < by_name["soft"].at(200) / 4


def test_every_figure_reaches_the_reports(tmp_path: Path) -> None:
    curves = decoding.measure(nobody, trials=1, lengths=(4, 8))
    learnt = learning.measure(nobody, lengths=(5, 30), rounds=1)
    steps = [step.Step("mocha", 110.0), step.Step("soft", 100.0)]
    written = json.loads(json.dumps(report.as_json(curves, learnt, steps)))
    assert {one["attention"] for one in written["decoding"]} == {
        "soft",
        "monotonic",
        "MoChA w = 2",
        "MoChA w = 4",
        "MoChA w = 8",
    }
    assert written["ratios"]["update with MoChA of one with soft attention"] == 1.1
    assert {one["form"] for one in written["training"]} == set(learning.FORMS)
    report.plot(curves, tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()
    for energy in decoding.ENERGIES:
        assert report.decoding_table(curves, energy).row_count == 5
    assert report.learning_table(learnt).row_count == 4 * len(
        {(one.device, one.threads) for one in learnt}
    )
    assert report.step_table(steps).row_count == 2


def test_the_batch_of_an_update_fits_the_losses() -> None:
    batch = step.batch(28)
    assert batch.logmel.shape == (16, 600, 80)
    assert int(batch.lengths.max()) == 150
    assert batch.targets.shape == (16, 70)


def test_measuring_leaves_the_threads_as_they_were() -> None:
    before = torch.get_num_threads()
    learning.measure(nobody, lengths=(3,), rounds=1)
    assert torch.get_num_threads() == before


def test_no_trial_is_refused() -> None:
    with pytest.raises(ValueError, match="a trial and a length or more, got 0"):
        decoding.measure(nobody, trials=0)
