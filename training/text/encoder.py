"""Encoders of words: embeddings, and LSTMs or GRUs over them, in one direction or both."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.layer import Layer
from cortado.training.text.recipe import TokenEncoderConfig


class Encoded(NamedTuple):
    """Encoded texts."""

    values: Tensor  # (B, T, H)
    mask: Tensor  # (B, T) true on words, false on padding
    last: Tensor  # (B, H) the last state of the last layer, of both directions if there are two


class TokenEncoder(Layer):
    """Words (B, T) to (B, T, H); one direction streams, both need the whole text."""

    def __init__(self, config: TokenEncoderConfig, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, config.embedding)
        self.dropout = nn.Dropout(config.dropout)
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[config.kind]
        self.recurrent: nn.LSTM | nn.GRU = kind(
            config.embedding,
            config.width,
            config.layers,
            batch_first=True,
            bidirectional=config.bidirectional,
        )
        self.width = config.width * (1 + config.bidirectional)  # H

    def encode(self, words: Tensor, lengths: Tensor) -> Encoded:
        """Return whole texts (B, T) of so many words (B,), encoded."""
        embedded = self.dropout(self.embedding(words))
        packed = nn.utils.rnn.pack_padded_sequence(
            embedded, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        output, state = self.recurrent(packed)
        values, _ = nn.utils.rnn.pad_packed_sequence(
            output, batch_first=True, total_length=words.shape[1]
        )
        hidden = state[0] if isinstance(state, tuple) else state  # (L D, B, W), D directions
        last = torch.cat(hidden[-self.width // hidden.shape[2] :].unbind(), 1)
        mask = torch.arange(words.shape[1], device=words.device) < lengths.unsqueeze(1)
        return Encoded(self.dropout(values), mask, last)

    def initial_state(self, batch: int) -> tuple[Any, ...]:
        """Return the state of texts without words yet.

        Raises:
            ValueError: the encoder is bidirectional.
        """
        recurrent = self.recurrent
        if recurrent.bidirectional:
            raise ValueError(
                "expected a unidirectional encoder for a stream, got a bidirectional one"
            )
        zeros = self.embedding.weight.new_zeros(batch, recurrent.num_layers, recurrent.hidden_size)
        return (zeros, zeros) if isinstance(recurrent, nn.LSTM) else (zeros,)

    def step(self, x: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """Return (B, T, H) for the next words (B, T), and the new state."""
        before = [part.transpose(0, 1).contiguous() for part in state]
        lstm = isinstance(self.recurrent, nn.LSTM)
        values, after = self.recurrent(self.embedding(x), tuple(before) if lstm else before[0])
        parts = after if lstm else (after,)
        return values, tuple(part.transpose(0, 1) for part in parts)
