"""The exact expected chunk weights of MoChA (Chiu & Raffel 2018, eq. 19).

Stop k shares its mass alpha_k out by a softmax over its own window k - w + 1 .. k:

    beta_j = sum_{k=j}^{j+w-1} alpha_k s_kj,    s_kj = exp(u_j) / sum_{l=k-w+1}^{k} exp(u_l)

Computed from the windows themselves: the form with moving sums of exponentials, which public code
uses, loses every chunk whose energies lie far below the row's maximum. Backwards, b being dL/dbeta:

    a_k = dL/d alpha_k = sum_j s_kj b_j,    dL/du_j = sum_k alpha_k s_kj (b_j - a_k)
"""

import torch
from torch import Tensor, nn

from cortado.model.attention.inputs import checked_inputs
from cortado.model.operation import operation


@operation("expected_chunk(Tensor alpha, Tensor energies, int chunk) -> Tensor")
def chunk_weights(alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
    """Return beta (B, T) by the windows (B, T, w) themselves."""
    padded = nn.functional.pad(energies, (chunk - 1, 0), value=-torch.inf)
    weights = alpha.unsqueeze(2) * padded.unfold(1, chunk, 1).softmax(2)  # (B, T, w)
    beta = weights[..., -1]
    for back in range(1, chunk):  # a stop at k gives to entry k - back
        given = nn.functional.pad(weights[:, :, chunk - 1 - back], (0, back))
        beta = beta + given[:, back:]
    return beta


def expected_chunk(alpha: Tensor, energies: Tensor, chunk: int) -> Tensor:
    """Return beta (B, T): alpha_k times the softmax of its own window, summed over the stops k.

    Args:
        alpha: (B, T) probability of stopping at each frame, 0 on padding.
        energies: (B, T) chunk energies of any size, finite on padding, too.
        chunk: w, the window's width in frames; it ends at the stop. 1 gives alpha itself.

    Both are float32 or both float64, and so is beta; bfloat16 and float16 are taken as float32.

    Raises: ValueError where shapes, types or devices differ, or the window has no frame.
    """
    alpha, energies = checked_inputs(alpha=alpha, energies=energies)
    if chunk < 1:
        raise ValueError(f"expected a chunk of 1 frame or more, got {chunk}")
    if chunk == 1 or not alpha.numel():
        return alpha
    return chunk_weights(alpha, energies, chunk)
