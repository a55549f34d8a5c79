"""Builds the attention that a configuration names."""

from torch import nn

from cortado.model.attention.config import AttentionConfig
from cortado.model.attention.last_frame import LastFrame
from cortado.model.attention.local_m import LocalM
from cortado.model.attention.local_p import LocalP
from cortado.model.attention.matcha import MAtChA
from cortado.model.attention.mocha import MoChA
from cortado.model.attention.monotonic import HardMonotonic
from cortado.model.attention.soft import SoftAttention


def attention(config: AttentionConfig, query_width: int, key_width: int) -> nn.Module:
    """Return the attention that the configuration names, an `Attention` in shape.

    Raises: ValueError for the dot score with a decoder and an encoder of different widths.
    """
    match config.kind:
        case "mocha":
            return MoChA(config, query_width, key_width)
        case "monotonic":
            return HardMonotonic(config, query_width, key_width)
        case "matcha":
            return MAtChA(config, query_width, key_width)
        case "soft":
            return SoftAttention(config, query_width, key_width)
        case "local-m":
            return LocalM(config, query_width, key_width)
        case "local-p":
            return LocalP(config, query_width, key_width)
        case "none":
            return LastFrame()
