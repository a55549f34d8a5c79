"""A convolution over time and frequency."""

from torch import Tensor, cat, nn

from cortado.model.layer import Layer

KERNEL = 3  # frames and frequencies


class Convolution(Layer):
    """3x3 convolution, batch norm and ReLU on (B, T, F, C), causal in time.

    Output frame k sees input frames up to stride * (k + 1) - 1 and none after: seen from the
    frame at its centre, the kernel looks ahead.
    """

    lookahead = KERNEL // 2

    def __init__(self, channels_in: int, channels: int, stride: int, frequencies: int) -> None:
        super().__init__()
        self.ratio, self.frequencies = stride, frequencies
        self.conv = nn.Conv2d(
            channels_in, channels, KERNEL, stride, padding=(0, KERNEL // 2), bias=False
        )
        self.norm = nn.BatchNorm2d(channels)

    def initial_state(self, batch: int) -> tuple[Tensor]:
        """Return the (S, C, KERNEL - stride, F) zeros before the first frame."""
        weight, frames = self.conv.weight, KERNEL - self.ratio
        return (weight.new_zeros(batch, weight.shape[1], frames, self.frequencies),)

    def step(self, x: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
        """Return the (S, T / stride, F / stride, C') outputs of the next (S, T, F, C) frames."""
        self.check_multiple(x)
        # With the channels last, as they come, nothing has to be put into another order.
        padded = cat([state[0].to(x.dtype).permute(0, 2, 3, 1), x], 1).permute(0, 3, 1, 2)
        y = self.norm(self.conv(padded)).relu()
        return y.permute(0, 2, 3, 1), (padded[:, :, padded.shape[2] - state[0].shape[2] :],)
