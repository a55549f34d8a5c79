"""Every attention in both decoders: against literal loops, and decoding against expectation."""

from math import exp
from typing import Any, Literal, get_args

import pytest
import torch
from torch import Tensor, nn

import cortado.model.compiled.operations  # noqa: F401
from cortado.model.attention import AttentionConfig
from cortado.model.attention.build import attention
from cortado.model.attention.config import MONOTONIC, SCORES, Kind, Score
from cortado.model.attention.local_m import within
from cortado.model.attention.scores import score
from cortado.model.config import DecoderConfig
from cortado.model.decoder.bahdanau import BahdanauDecoder
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.decoder.luong import LuongDecoder
from cortado.model.search.offline import expected, scanned

QUERY, WIDTH, FRAMES, SYMBOLS = 6, 6, 12, 5
EVERY = [(kind, score) for kind in get_args(Kind) for score in SCORES[kind]]
Order = Literal["bahdanau", "luong"]
ORDERED: list[tuple[Order, Kind, Score]] = [
    (order, kind, score)
    for order in get_args(Order)
    for kind, score in EVERY
    if order == "luong" or kind not in MONOTONIC or score != "general"
]
DECODERS = {"bahdanau": BahdanauDecoder, "luong": LuongDecoder}


def config(kind: Kind, score: Score = "additive", chunk: int = 2) -> AttentionConfig:
    return AttentionConfig(8, chunk, -1.0, kind, score, window=3, positions=9)


def decoder(
    order: Order, kind: Kind, score: Score = "additive", chunk: int = 2, seed: int = 0
) -> AttentionDecoder:
    torch.manual_seed(seed)
    built = DecoderConfig(QUERY, 4, config(kind, score, chunk), order)
    return DECODERS[order](built, WIDTH, SYMBOLS).eval().requires_grad_(False)


def capped(module: AttentionDecoder, cap: int) -> AttentionDecoder:
    module.cap = cap
    return module


def frames(seed: int, streams: int = 2) -> tuple[Tensor, Tensor]:
    """(B, T, H) encoder frames and their mask (B, T); the first stream is shorter."""
    values = torch.randn(streams, FRAMES, WIDTH, generator=torch.Generator().manual_seed(seed))
    lengths = torch.tensor([FRAMES - 4] + [FRAMES] * (streams - 1))
    return values, torch.arange(FRAMES) < lengths.unsqueeze(1)


@pytest.mark.parametrize(("order", "kind", "score"), ORDERED)
def test_a_teacher_forced_pass_is_symbol_after_symbol(
    order: Order, kind: Kind, score: Score
) -> None:
    module, (values, mask) = decoder(order, kind, score), frames(0)
    targets = torch.randint(SYMBOLS, (2, 4))
    decoded = module.teacher_forced(values, mask, targets)
    keys, past = module.attention.keys(values, mask), module.attention.first(mask)
    memory = module.beginning(2)
    for row in range(5):
        attended = module.attention.attend(module.query(memory), keys, past)
        past = attended.memory
        torch.testing.assert_close(decoded.weights[:, row], attended.weights)
        logits, output = module.write(attended.context, memory)
        if row < decoded.logits.shape[1]:
            torch.testing.assert_close(decoded.logits[:, row], logits)
        memory = module.read(targets[:, min(row, 3)], output)
    assert decoded.logits.shape == ((2, 4, SYMBOLS) if module.online else (2, 5, SYMBOLS + 1))
    assert (decoded.energies is not None) == module.online == (kind in MONOTONIC)


@pytest.mark.parametrize(("order", "kind", "score"), ORDERED)
def test_padding_takes_no_weight_and_never_leaks(order: Order, kind: Kind, score: Score) -> None:
    module, (values, mask) = decoder(order, kind, score).requires_grad_(), frames(1)
    targets, end = torch.randint(SYMBOLS, (2, 4)), FRAMES - 4
    clean = module.teacher_forced(values, mask, targets)
    dirty = module.teacher_forced(values.where(mask.unsqueeze(2), 50.0), mask, targets)
    longer = nn.functional.pad(targets[:1], (0, 3))
    padded = module.teacher_forced(values[:1], mask[:1], longer)
    alone = module.teacher_forced(values[:1, :end], mask[:1, :end], targets[:1])
    assert not clean.weights[0, :, end:].any()
    assert not clean.alpha[0, :, end:].any()
    torch.testing.assert_close(dirty.logits, clean.logits)
    torch.testing.assert_close(alone.logits, clean.logits[:1])
    assert not module.online or (clean.alpha.sum(2) <= 1 + 1e-6).all()
    written, gradients = alone.logits.shape[1], []
    for found in (alone, padded):
        loss = found.logits[:, :written].square().sum() + found.alpha[:, :5, :end].square().sum()
        gradients.append(torch.autograd.grad(loss, [*module.parameters()], allow_unused=True))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_noise_is_drawn_in_training_only() -> None:
    module, batch = decoder("bahdanau", "mocha"), (*frames(1), torch.zeros(2, 1, dtype=torch.long))
    for noise in (0.0, 1.0):
        one, other = (module.teacher_forced(*batch, noise).alpha for _ in range(2))
        assert torch.equal(one, other) == (noise == 0)


@pytest.mark.parametrize(("order", "kind", "score"), ORDERED)
def test_every_parameter_learns(order: Order, kind: Kind, score: Score) -> None:
    module, (values, mask) = decoder(order, kind, score).requires_grad_(), frames(2)
    values.requires_grad_()
    decoded = module.teacher_forced(values, mask, torch.randint(SYMBOLS, (2, 4)))
    (decoded.logits.square().sum() + decoded.alpha[..., ::2].sum()).backward()
    assert values.grad is not None
    assert values.grad.isfinite().all()
    still = [name for name, p in module.named_parameters() if p.grad is None or not p.grad.any()]
    # what every frame's score has alike moves no softmax
    assert [name for name in still if not name.endswith("chunkwise.bias")] == []


@pytest.mark.parametrize(
    ("order", "score"), [("bahdanau", "additive"), ("luong", "additive"), ("luong", "general")]
)
def test_mocha_of_one_frame_is_hard_monotonic_attention_bit_for_bit(
    order: Order, score: Score
) -> None:
    mocha, hard = decoder(order, "mocha", score, 1, 3), decoder(order, "monotonic", score, 1, 4)
    shared = mocha.state_dict()
    hard.load_state_dict({name: shared[name] for name in hard.state_dict()})
    values, mask = frames(3, 8)
    targets, results = torch.randint(SYMBOLS, (8, 6)), []
    for module in (mocha, hard):
        with torch.no_grad():
            module.attention.monotonic.scale.fill_(4.0)
        heard = values.clone().requires_grad_()
        decoded = module.teacher_forced(heard, mask, targets)
        (gradient,) = torch.autograd.grad(decoded.logits.square().sum(), heard)
        written = scanned(capped(module, 3), values, mask.sum(1), None)
        results.append((decoded, gradient, written))
    (one, one_grad, one_written), (other, other_grad, other_written) = results
    assert torch.equal(one.logits, other.logits)
    assert torch.equal(one.alpha, other.alpha)
    assert torch.equal(one.weights, other.weights)
    assert torch.equal(one_grad, other_grad)
    assert one_written == other_written
    assert sum(map(len, one_written)) > 8


@pytest.mark.parametrize(
    ("order", "kind", "score"), [one for one in ORDERED if one[1] in MONOTONIC]
)
def test_expected_decoding_with_saturated_energies_is_hard_decoding(
    order: Order, kind: Kind, score: Score
) -> None:
    stops, most = set(), 12
    for seed in range(4):
        module, (values, mask) = decoder(order, kind, score, 3, seed), frames(seed, 6)
        saturated(module)
        # a stream that stops at one frame for ever writes the most symbols there, in both
        hard = scanned(capped(module, most), values, mask.sum(1), None)
        soft = expected(module, values, mask, torch.full((6,), most))
        assert [one[:most] for one in hard] == soft
        stops |= {(seed, row, symbol.frame) for row, one in enumerate(soft) for symbol in one}
    assert len(stops) > 20


def saturated(module: AttentionDecoder) -> None:
    """Let p be 0 or 1, and depend much on the last symbol and its context."""
    energy = module.attention.monotonic
    energy.scale.fill_(6e6)
    energy.bias.fill_(-1.5e6)
    module.lstm.weight_ih.mul_(2)
    module.lstm.weight_hh.mul_(6)
    (energy.query if hasattr(energy, "query") else energy.key).weight.mul_(4)


def stops_of(module: AttentionDecoder, values: Tensor, symbol: int) -> tuple[Tensor, Tensor]:
    """How often a symbol's sampled scan stops at each frame or runs off the end, and should."""
    draws, mask = 4000, torch.ones(1, FRAMES, dtype=torch.bool)
    known = torch.zeros(1, symbol, dtype=torch.long)
    alpha = module.teacher_forced(values, mask, known).alpha[0, symbol]
    generator, lengths = torch.Generator().manual_seed(0), torch.full((draws,), FRAMES)
    found = scanned(module, values.expand(draws, -1, -1), lengths, generator)
    frames = [one[symbol].frame if len(one) > symbol else FRAMES for one in found]
    wanted = draws * torch.cat([alpha, 1 - alpha.sum(0, keepdim=True)]).double()
    return torch.tensor(frames).bincount(minlength=FRAMES + 1).double(), wanted


@pytest.mark.parametrize("kind", MONOTONIC)
def test_sampled_stops_are_distributed_as_alpha(kind: Kind) -> None:
    """Chi-square of the frames of the first symbol, and of all scans that run off the end."""
    module = decoder("bahdanau", kind, seed=1)
    module.attention.monotonic.bias.fill_(-1.5)
    counts, wanted = stops_of(capped(module, 1), frames(5)[0][1:], 0)
    assert chi_square(counts, wanted) < 32.9  # the 99.9th percentile with 12 degrees of freedom
    assert (wanted > 5).all()


def test_a_chain_of_sampled_stops_is_distributed_as_alpha() -> None:
    """Stops of the third symbol where neither symbols nor contexts change the energies."""
    module = decoder("bahdanau", "monotonic", seed=2)
    module.attention.monotonic.query.weight.zero_()
    assert chi_square(*stops_of(capped(module, 20), frames(6)[0][1:], 2)) < 32.9


def chi_square(counts: Tensor, wanted: Tensor) -> float:
    return float(((counts - wanted) ** 2 / wanted).sum())


def test_sampling_is_a_function_of_the_generator() -> None:
    module, (values, mask) = decoder("luong", "mocha", seed=1), frames(5, 4)
    found = [
        scanned(capped(module, 2), values, mask.sum(1), torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]


LITERAL: dict[Score, Any] = {  # of a score m, a query s and a frame h
    "additive": lambda m, s, h: (
        m.direction @ (m.query.weight @ s + m.key.weight @ h + m.key.bias).tanh()
    ),
    "concat": lambda m, s, h: m.direction @ (m.both.weight @ torch.cat([s, h])).tanh(),
    "dot": lambda m, s, h: s @ h,
    "general": lambda m, s, h: s @ m.key.weight @ h,
}


@pytest.mark.parametrize("name", LITERAL)
@torch.no_grad()
def test_soft_weights_are_the_softmax_of_the_literal_score(name: Score) -> None:
    torch.manual_seed(1)
    queries, values = torch.randn(3, 2, QUERY), torch.randn(2, 5, WIDTH)
    module: Any = attention(config("soft", name), QUERY, WIDTH)
    mask = torch.ones(2, 5, dtype=torch.bool)
    keys, past = module.keys(values, mask), module.first(mask)
    for query in queries:
        found = module.attend(query, keys, past)
        for b, rows in enumerate(values):
            scores = [LITERAL[name](module.score, query[b], h) for h in rows]
            wanted = torch.stack(scores).softmax(0)
            torch.testing.assert_close(found.weights[b], wanted, rtol=1e-5, atol=1e-7)
            torch.testing.assert_close(found.context[b], wanted @ rows)


def test_the_location_score_hears_nothing_and_ends_at_its_last_position() -> None:
    torch.manual_seed(0)
    module = attention(config("soft", "location"), QUERY, WIDTH)
    query, mask = torch.randn(2, QUERY), torch.ones(2, FRAMES, dtype=torch.bool)
    one, other = (
        module.attend(query, module.keys(torch.randn(2, FRAMES, WIDTH), mask), module.first(mask))  # type: ignore[operator]
        for _ in range(2)
    )
    assert torch.equal(one.weights, other.weights)
    place = module.score.place  # type: ignore[union-attr]
    wanted = (query @ place.weight.t()).softmax(1)  # type: ignore[union-attr, operator]
    torch.testing.assert_close(one.weights[:, :9], wanted)
    assert not one.weights[:, 9:].any()


def test_local_m_moves_on_by_its_stride_and_looks_no_further_than_its_window() -> None:
    torch.manual_seed(0)
    built = AttentionConfig(8, kind="local-m", window=2, stride=3.0)
    module: Any = attention(built, QUERY, WIDTH)
    values, mask = torch.randn(1, FRAMES, WIDTH), torch.ones(1, FRAMES, dtype=torch.bool)
    keys, memory = module.keys(values, mask), module.first(mask)
    for row in range(6):
        found = module.attend(torch.randn(1, QUERY), keys, memory)
        memory = found.memory
        near = [j for j in range(FRAMES) if abs(j - 3 * row) <= 2]
        assert found.weights[0].nonzero()[:, 0].tolist() == near
        assert found.weights.sum().item() == pytest.approx(1 if near else 0)


def test_local_p_is_its_window_times_the_gaussian() -> None:
    torch.manual_seed(0)
    module: Any = attention(config("local-p"), QUERY, WIDTH)
    values, (_, mask) = torch.randn(2, FRAMES, WIDTH), frames(0)
    query = 3 * torch.randn(2, QUERY)
    with torch.no_grad():
        keys = module.keys(values, mask)
        found = module.attend(query, keys, module.first(mask))
        scores = module.score(query, keys.scored)
        for b, length in enumerate((FRAMES - 4, FRAMES)):
            inner = (module.hidden.weight @ query[b]).tanh()
            p = length / (1 + exp(-float(module.position.weight[0] @ inner))) - 1  # from 0
            near = [j for j in range(length) if abs(j - p) <= 3]
            total = sum(exp(scores[b, j]) for j in near)
            for j in range(FRAMES):
                share = exp(scores[b, j]) / total if j in near else 0
                wanted = share * exp(-((j - p) ** 2) / (2 * 1.5**2))
                assert found.weights[b, j].item() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("share", "near"),
    [
        # S = 8 and p = 4: frames 2 to 6 counted from 1, and exp(-d^2 / 2), as D = 2
        (0.5, {2: 0.0270671, 3: 0.1213061, 4: 0.2, 5: 0.1213061, 6: 0.0270671}),
        # p = 8 is the last frame, beyond which there is nothing
        (1.0, {6: 0.0451118, 7: 0.2021769, 8: 0.3333333}),
        # p = 0 lies before the first frame
        (0.0, {1: 0.3032653, 2: 0.0676676}),
    ],
)
def test_local_p_counts_its_positions_from_one(share: float, near: dict[int, float]) -> None:
    """Luong et al. 2015, eqs. 9 and 10, where all frames score alike."""
    module: Any = attention(AttentionConfig(1, kind="local-p", window=2), 1, 1)
    with torch.no_grad():
        module.score.direction.zero_()
        module.hidden.weight.fill_(100.0)  # tanh of it is 1
        module.position.weight.fill_({0.0: -100.0, 0.5: 0.0, 1.0: 100.0}[share])
        mask = torch.tensor([[True] * 8 + [False] * 2])
        values = torch.arange(1.0, 11.0).view(1, 10, 1)
        keys = module.keys(values, mask)
        found = module.attend(torch.ones(1, 1), keys, module.first(mask))
    wanted = [near.get(s, 0.0) for s in range(1, 11)]
    assert found.weights[0].tolist() == pytest.approx(wanted, abs=1e-6)
    assert found.context.item() == pytest.approx(sum(s * w for s, w in near.items()), abs=1e-5)


def test_a_window_behind_the_end_has_no_weights_and_finite_gradients() -> None:
    energies = torch.randn(2, FRAMES, requires_grad=True)
    mask = torch.ones(2, FRAMES, dtype=torch.bool)
    weights = within(energies, torch.tensor([[2.0], [50.0]]), 3, mask)
    assert weights[0].sum().item() == pytest.approx(1)
    assert not weights[1].any()
    (gradient,) = torch.autograd.grad(weights.square().sum(), energies)
    assert gradient.isfinite().all()
    assert not gradient[1].any()


def test_no_attention_gives_the_last_frame() -> None:
    module, (values, mask) = decoder("bahdanau", "none"), frames(0)
    found = module.attention.attend(
        torch.randn(2, QUERY), module.attention.keys(values, mask), module.attention.first(mask)
    )
    assert torch.equal(found.context, torch.stack([values[0, FRAMES - 5], values[1, -1]]))
    assert found.weights.nonzero().tolist() == [[0, FRAMES - 5], [1, FRAMES - 1]]


def test_matcha_sees_everything_since_the_last_stop_in_a_stream() -> None:
    """Its stops and contexts are those of a literal scan; the last stop's frame is seen too."""
    module = decoder("bahdanau", "matcha", seed=3)
    attention = module.attention
    attention.monotonic.scale.mul_(20)
    values = frames(7)[0][1:]
    state, memory, start, several = module.initial_state(1), module.beginning(1), 0, 0
    for j, value in enumerate(values.unbind(1)):
        found, state = capped(module, 4).step(value.unsqueeze(1), state)
        written = []
        for _ in range(4):
            query = module.query(memory)
            if attention.energy(query, attention.scan_key(value)) < 0:
                break
            span = values[0, start : j + 1]
            energies = attention.chunkwise.at(query, attention.chunkwise.key(span)[None])
            logits, output = module.write(energies.softmax(1) @ span, memory)
            memory = module.read(logits.argmax(1), output)
            written.append(int(logits.argmax()))
            several += j > start
            start = j
        assert found[0, 0].tolist() == written + [-1] * (4 - len(written))
        torch.testing.assert_close(state.lstm.hidden, memory.lstm.hidden)
    assert several > 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "mocha", "score": "dot"}, "expected a score of 'mocha' among additive, general"),
        ({"kind": "local-p", "score": "location"}, "among additive, general, dot, concat, got"),
        ({"chunk": 0}, "expected a chunk of at least 1, got 0"),
        ({"span": 0}, "expected a span of at least 1, got 0"),
        ({"kind": "foo"}, "expected a kind among mocha, monotonic, matcha, soft, .*, got 'foo'"),
        ({"bias": float("nan")}, "expected a bias from -3e\\+38 to 3e\\+38, got nan"),
        ({"bias": 1e40}, "expected a bias from -3e\\+38 to 3e\\+38, got 1e\\+40"),
        ({"stride": 0.0}, "expected a stride above 0, got 0"),
        ({"stride": float("inf")}, "expected a stride above 0, got inf"),
    ],
)
def test_what_does_not_fit_an_attention_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionConfig(**wrong)


def test_the_dot_score_asks_for_widths_that_agree() -> None:
    with pytest.raises(ValueError, match="as wide as the encoder for the dot score, got 5 and 7"):
        score(config("soft", "dot"), 5, 7)


def test_the_general_energy_asks_for_a_query_that_is_not_zero_at_first() -> None:
    with pytest.raises(ValueError, match="expected a decoder of kind 'luong' with the general"):
        DecoderConfig(attention=config("mocha", "general"))


@pytest.mark.parametrize("kind", ["soft", "local-m", "local-p", "none"])
def test_an_attention_to_whole_utterances_does_not_stream(kind: Kind) -> None:
    with pytest.raises(ValueError, match="expected a monotonic attention for a stream, got "):
        decoder("luong", kind).initial_state(1)


def test_input_feeding_may_be_left_out() -> None:
    torch.manual_seed(0)
    built = DecoderConfig(QUERY, 4, config("soft"), "luong", feeding=False)
    module, (values, mask) = LuongDecoder(built, WIDTH, SYMBOLS), frames(0)
    assert module.lstm.input_size == 4
    decoded = module.teacher_forced(values, mask, torch.zeros(2, 3, dtype=torch.long))
    assert decoded.logits.shape == (2, 4, SYMBOLS + 1)
