"""The inputs of the expected alignments and attentions: what all of them check."""

import torch
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)


def checked_inputs(**inputs: Tensor) -> list[Tensor]:
    """Return inputs (B, T) of one shape, type and device; half precision becomes float32.

    Raises: ValueError where shapes, types or devices differ, or the type is not a float.
    """
    found = [x.float() if x.dtype in HALF else x for x in inputs.values()]
    first = found[0]
    if first.dim() != 2 or len({(x.shape, x.dtype, x.device) for x in found}) > 1:
        raise ValueError(
            f"expected {', '.join(inputs)} of one shape (B, T), type and device, got "
            + ", ".join(f"{tuple(x.shape)} {x.dtype} {x.device}" for x in found)
        )
    if first.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"expected float64, float32, bfloat16 or float16, got {first.dtype}")
    return found
