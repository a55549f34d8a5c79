"""Label smoothing over neighbours against a literal loop."""

import torch

from cortado.training.learning.smoothing import localised

WEIGHTS = (0.015, 0.035, 0.035, 0.015)  # offsets -2, -1, 1, 2


def literal(target: list[int], symbols: int) -> list[list[float]]:
    rows = []
    for i, symbol in enumerate(target):
        row = [0.0] * symbols
        row[symbol] = 1.0
        for offset, weight in zip((-2, -1, 1, 2), WEIGHTS, strict=True):
            if 0 <= i + offset < len(target):
                row[target[i + offset]] += weight
                row[symbol] -= weight
        rows.append(row)
    return rows


def test_neighbours_take_their_share_and_padding_takes_none() -> None:
    targets = torch.tensor([[1, 2, 2, 4, 0, 3], [5, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    lengths = torch.tensor([6, 2, 0])
    found = localised(targets, lengths, 6, WEIGHTS)
    for row, target, length in zip(found, targets.tolist(), lengths.tolist(), strict=True):
        wanted = torch.tensor(literal(target[:length], 6)).reshape(length, 6)
        torch.testing.assert_close(row[:length], wanted)
        assert not row[length:].any()
