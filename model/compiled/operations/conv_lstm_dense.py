"""The convolutional LSTM on a GPU: an ordinary LSTM whose recurrent matrix is a band.

Its dozen small operations a frame would each wait for the GPU to start; cuDNN runs the frames of an
ordinary LSTM in one call. The convolution over frequency, written as a matrix, multiplies many
zeros, which costs a GPU less.
"""

import torch
from torch import Tensor

from cortado.model.operation import definition, kernel

MIN_FRAMES = 4  # fewer are not worth the matrices


@kernel("conv_lstm", "CUDA")
def conv_lstm(
    inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what `encoder.conv_lstm` defines."""
    if len(inputs) < MIN_FRAMES:
        return definition("conv_lstm")(inputs, weight, hidden, cell)
    with torch.autocast(inputs.device.type, enabled=False):  # cuDNN has no LSTM in bf16
        return recurrence(inputs.to(cell), weight.to(cell), hidden.to(cell), cell)


def recurrence(
    inputs: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the same, of tensors of one type."""
    frequencies, channels = cell.shape[1:]
    # torch's layer has the gates outermost, in the order i, f, g, o, and multiplies its inputs.
    given = inputs.unflatten(-1, (4, channels))[..., [0, 1, 3, 2], :].transpose(2, 3).flatten(2)
    as_given = torch.eye(given.shape[2], dtype=cell.dtype, device=cell.device)
    weights = [as_given, recurrent_matrix(weight, frequencies)]
    before = [state.flatten(1).unsqueeze(0) for state in (hidden, cell)]
    learns = torch.is_grad_enabled()
    hiddens, _, last = torch.lstm(given, before, weights, False, 1, 0.0, learns, False, False)
    shape = frequencies, channels
    return hiddens.unflatten(2, shape), last[0].unflatten(1, shape)


def recurrent_matrix(weight: Tensor, frequencies: int) -> Tensor:
    """Return the matrix (4 F C, F C) of torch's LSTM that does what the convolution does.

    Args:
        weight: (K * C, 4 C) of K neighbouring frequencies, gates in the order i, f, o, g.
        frequencies: F.
    """
    channels = weight.shape[1] // 4
    taps = weight.view(-1, channels, 4, channels)[:, :, [0, 1, 3, 2]]
    shifts = torch.arange(len(taps), device=weight.device) - len(taps) // 2
    at = torch.arange(frequencies, device=weight.device)
    near = at[None, :, None] + shifts[:, None, None] == at  # (K, F, F)
    return torch.einsum("kfh,kcgd->gfdhc", near.to(weight), taps).reshape(
        4 * frequencies * channels, frequencies * channels
    )
