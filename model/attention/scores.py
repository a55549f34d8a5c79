"""How well a frame fits a query: Bahdanau's and Luong's scores, and Raffel's general energy.

The normalised additive energy, which the monotonic attentions begin with, is in energy.py.
"""

import torch
from torch import Tensor, nn

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.energy import AdditiveEnergy, Keys, additive, shared
from cortado.model.attention.shared_matmul import SharedMatrix


class Additive(nn.Module):
    """v' tanh(W_s s + W_h h + b) (Bahdanau et al. 2015)."""

    def __init__(self, query_width: int, key_width: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(key_width, width)
        self.direction = nn.Parameter(torch.randn(width) * width**-0.5)

    def keys(self, values: Tensor) -> Keys:
        """Return the keys of (B, T, H) encoder frames, for any number of queries."""
        return shared(self.key(values), self.query.weight, self.direction)

    def forward(self, query: Tensor, keys: Keys) -> Tensor:
        """Return (B, T) scores of (B, H) queries."""
        return additive(query, keys)


class Concat(nn.Module):
    """v' tanh(W [s; h]) (Luong et al. 2015, eq. 8)."""

    def __init__(self, query_width: int, key_width: int, width: int) -> None:
        super().__init__()
        self.query_width = query_width
        self.both = nn.Linear(query_width + key_width, width, bias=False)
        self.direction = nn.Parameter(torch.randn(width) * width**-0.5)

    def keys(self, values: Tensor) -> Keys:
        """Return the keys of (B, T, H) encoder frames, for any number of queries."""
        of_query, of_frame = self.both.weight.tensor_split([self.query_width], 1)
        return shared(values @ of_frame.t(), of_query, self.direction)

    def forward(self, query: Tensor, keys: Keys) -> Tensor:
        """Return (B, T) scores of (B, H) queries."""
        return additive(query, keys)


class Dot(nn.Module):
    """s' h (Luong et al. 2015, eq. 8)."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        if query_width != key_width:
            raise ValueError(
                "expected a decoder as wide as the encoder for the dot score, "
                f"got {query_width} and {key_width}"
            )

    def keys(self, values: Tensor) -> SharedMatrix:
        """Return the (B, H, T) encoder frames."""
        return SharedMatrix(values.transpose(1, 2))

    def forward(self, query: Tensor, keys: SharedMatrix) -> Tensor:
        """Return (B, T) scores of (B, H) queries."""
        return keys.multiply(query.unsqueeze(1)).squeeze(1)


class General(nn.Module):
    """s' W h (Luong et al. 2015, eq. 8)."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.key = nn.Linear(key_width, query_width, bias=False)

    def keys(self, values: Tensor) -> SharedMatrix:
        """Return W h (B, H, T) of (B, T, H') encoder frames."""
        return SharedMatrix(self.key(values).transpose(1, 2))

    def forward(self, query: Tensor, keys: SharedMatrix) -> Tensor:
        """Return (B, T) scores of (B, H) queries."""
        return keys.multiply(query.unsqueeze(1)).squeeze(1)


class GeneralEnergy(General):
    """g * s' W h + r, for monotonic attention (Raffel et al. 2017, eq. 17)."""

    def __init__(self, query_width: int, key_width: int, bias: float) -> None:
        super().__init__(query_width, key_width)
        self.scale = nn.Parameter(torch.tensor(query_width**-0.5))
        self.bias = nn.Parameter(torch.tensor(bias))

    def forward(self, query: Tensor, keys: SharedMatrix) -> Tensor:
        """Return (B, T) energies of (B, H) queries."""
        return self.scale * super().forward(query, keys) + self.bias

    def at(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return (S, w) energies of (S, H) queries at (S, w, H) projected keys, in serving."""
        return self.scale * (keys @ query.unsqueeze(2)).squeeze(2) + self.bias


class Location(nn.Module):
    """W s, a score of each position, without its frame (Luong et al. 2015, section 3.1)."""

    def __init__(self, query_width: int, positions: int) -> None:
        super().__init__()
        self.place = nn.Linear(query_width, positions, bias=False)

    def keys(self, values: Tensor) -> int:
        """Return the number of frames."""
        return values.shape[1]

    def forward(self, query: Tensor, keys: int) -> Tensor:
        """Return (B, T) scores of (B, H) queries; frames beyond the positions have no weight."""
        scores: Tensor = self.place(query)[:, :keys]
        return nn.functional.pad(scores, (0, keys - scores.shape[1]), value=-torch.inf)


Score = Additive | Concat | Dot | General | Location
ScoreKeys = Keys | SharedMatrix | int
MonotonicEnergy = AdditiveEnergy | GeneralEnergy
MonotonicKeys = Keys | SharedMatrix


def score(config: AttentionConfig, query_width: int, key_width: int) -> Score:
    """Return the score that the configuration names.

    Raises: ValueError for the dot score of widths that differ.
    """
    match config.score:
        case "additive":
            return Additive(query_width, key_width, config.width)
        case "concat":
            return Concat(query_width, key_width, config.width)
        case "dot":
            return Dot(query_width, key_width)
        case "general":
            return General(query_width, key_width)
        case "location":
            return Location(query_width, config.positions)


def monotonic_energy(
    config: AttentionConfig, query_width: int, key_width: int, bias: float
) -> MonotonicEnergy:
    """Return the energy with scale g and initial bias r that the configuration names."""
    if config.score == "general":
        return GeneralEnergy(query_width, key_width, bias)
    return AdditiveEnergy(query_width, key_width, config.width, bias)
