"""Linear recurrences along the last dimension in tensor operations, for devices without kernels."""

import torch
from torch import Tensor


def scan(gates: Tensor, values: Tensor) -> Tensor:
    """Return y (..., T) with y_j = gates_j y_{j-1} + values_j and y_0 = values_0.

    By doubling: after n rounds entry j has the contributions of the last 2^n entries, so log2 T
    rounds replace T steps. There is no division: with gates from 0 to 1 and values >= 0 all terms
    are sums and products of such numbers, as exact as the steps themselves.

    Args:
        gates: (..., T); the first of each row is not used.
        values: (..., T) of the same type.
    """
    reach = 1
    while reach < values.shape[-1]:
        later = torch.addcmul(values[..., reach:], gates[..., reach:], values[..., :-reach])
        passed = gates[..., reach:] * gates[..., :-reach]
        values = torch.cat([values[..., :reach], later], -1)
        gates = torch.cat([gates[..., :reach], passed], -1)
        reach *= 2
    return values


def reverse_scan(gates: Tensor, values: Tensor) -> Tensor:
    """Return y (..., T) with y_j = gates_j y_{j+1} + values_j, and the last y the last value."""
    return scan(gates.flip(-1), values.flip(-1)).flip(-1)


def shifted(x: Tensor, by: int, fill: float = 0.0) -> Tensor:
    """Return (..., T) with entry j that of j - by, and `fill` where there is none."""
    ends = (by, 0) if by > 0 else (0, -by)
    padded = torch.nn.functional.pad(x, ends, value=fill)
    return padded[..., :-by] if by > 0 else padded[..., -by:]
