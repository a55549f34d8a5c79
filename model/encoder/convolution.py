"""A convolution over time and frequency that streams: forward of a whole equals any steps."""

from torch import Tensor, cat, nn

KERNEL = 3  # frames and frequencies


class StreamingConv(nn.Module):
    """3x3 convolution, batch norm, ReLU on (B, C, T, F), causal in time.

    Output frame k sees input frames up to stride * (k + 1) - 1 and none after. Seen from the
    frame at its centre, the kernel looks ahead: that is what `lookahead` counts.
    """

    lookahead = KERNEL // 2  # frames of this layer's input

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv = nn.Conv2d(
            channels_in, channels_out, KERNEL, stride, padding=(0, KERNEL // 2), bias=False
        )
        self.norm = nn.BatchNorm2d(channels_out)

    def initial_state(self, streams: int, frequencies: int) -> Tensor:
        """Return the (S, C, KERNEL - stride, F) zeros before the first frame."""
        weight = self.conv.weight
        return weight.new_zeros(streams, weight.shape[1], KERNEL - self.stride, frequencies)

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, C', T / stride, F / stride) of whole (B, C, T, F) utterances."""
        return self.step(x, self.initial_state(x.shape[0], x.shape[3]).to(x.dtype))[0]

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs of the next (S, C, t, F) frames and the new state."""
        if x.shape[2] % self.stride:
            raise ValueError(f"expected a multiple of {self.stride} frames, got {x.shape[2]}")
        x = cat([state, x], 2)
        return self.norm(self.conv(x)).relu(), x[:, :, x.shape[2] - state.shape[2] :]
