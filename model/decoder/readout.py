"""What is between a decoder's states and its output layer."""

from torch import Tensor, nn

from cortado.model.config import DecoderConfig


class Maxout(nn.Module):
    """The larger of every two linear units, (..., R) to (..., W) (Goodfellow et al. 2013)."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.units = nn.Linear(width_in, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., W)."""
        return self.units(x).unflatten(-1, (-1, 2)).amax(-1)


def readout(config: DecoderConfig, width: int) -> tuple[nn.Module, int]:
    """Return what is between the decoder's states, of this width, and its output; its own width.

    Source: Bahdanau et al. 2015, appendix A.2.2, of a maxout layer.
    """
    match config.readout:
        case "linear":
            return nn.Identity(), width
        case "maxout":
            return Maxout(width, config.width), config.width
        case "mlp":
            return nn.Sequential(nn.Linear(width, config.width), nn.Tanh()), config.width
