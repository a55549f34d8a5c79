"""Encoders of words: embeddings, and LSTMs or GRUs over them, in one direction or both."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.training.text.recipe import TokenEncoderConfig


class Encoded(NamedTuple):
    """Encoded texts."""

    values: Tensor  # (B, T, H)
    mask: Tensor  # (B, T) true on words, false on padding
    last: Tensor  # (B, H) the last state of the last layer, of both directions if there are two


class TokenEncoder(nn.Module):
    """Words (B, T) to (B, T, H), of whole texts."""

    def __init__(self, config: TokenEncoderConfig, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, config.embedding)
        self.dropout = nn.Dropout(config.dropout)
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[config.kind]
        directions = 1 + config.bidirectional
        widths = [config.embedding] + [config.width * directions] * (config.layers - 1)
        parts = (kind(width, config.width, batch_first=True) for width in widths * directions)
        layers = nn.ModuleList(parts)
        self.ahead, self.back = layers[: config.layers], layers[config.layers :]
        self.width = config.width * directions  # H

    def encode(self, words: Tensor, lengths: Tensor) -> Encoded:
        """Return whole texts (B, T) of so many words (B,), encoded.

        Backwards a layer reads the texts turned round within their lengths, so that padding is
        behind the words in both directions. (Packed sequences would do the same, in a time on
        CPUs that grows with the square of T.)
        """
        x, places = self.dropout(self.embedding(words)), torch.arange(words.shape[1]).to(lengths)
        ends = lengths.unsqueeze(1) - 1
        mask, turned = places <= ends, torch.where(places <= ends, ends - places, places)
        for place, ahead in enumerate(self.ahead):
            outputs = [ahead(x)[0]]
            if self.back:
                outputs.append(_at(self.back[place](_at(x, turned))[0], turned))
            x = torch.cat(outputs, 2)
        last = [_at(outputs[0], ends), *(one[:, :1] for one in outputs[1:])]
        return Encoded(self.dropout(x * mask.unsqueeze(2)), mask, torch.cat(last, 2).squeeze(1))


def _at(values: Tensor, places: Tensor) -> Tensor:
    """Return the values (B, T, H) at each text's places (B, N), (B, N, H)."""
    return values.gather(1, places.unsqueeze(2).expand(-1, -1, values.shape[2]))
