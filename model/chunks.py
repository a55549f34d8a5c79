"""The exact expected chunk weights of MoChA (Chiu & Raffel 2018)."""

import torch
from torch import Tensor, nn


def expected_chunk(alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
    """Return beta (B, T): alpha_k times the softmax of its own window, summed over the stops k.

    Args:
        alpha: (B, T) probability of stopping at each frame.
        energies: (B, T) chunk energies.
        chunk: w, the window's width in frames; it ends at the stop.

    Source: Chiu & Raffel 2018, eq. 19, computed from the windows themselves: the form with moving
    sums of exponentials loses every chunk whose energies lie far below the row's maximum.
    """
    if chunk == 1:
        return alpha
    padded = nn.functional.pad(energies, (chunk - 1, 0), value=-torch.inf)
    weights = alpha.unsqueeze(2) * padded.unfold(1, chunk, 1).softmax(2)  # (B, T, w)
    beta = weights[..., -1]
    for back in range(1, chunk):  # a stop at k gives to entry k - back
        given = nn.functional.pad(weights[:, :, chunk - 1 - back], (0, back))
        beta = beta + given[:, back:]
    return beta
