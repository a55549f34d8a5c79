"""A model of texts: a token encoder, and a decoder that recognises speech elsewhere."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cortado.model.decoder.bahdanau import BahdanauDecoder
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.decoder.luong import LuongDecoder
from cortado.model.encoder.lstm import LSTMState
from cortado.training.text.copying import mixture
from cortado.training.text.encoder import Encoded, TokenEncoder
from cortado.training.text.recipe import Row, TextRecipe
from cortado.training.text.vocabulary import Words

DECODERS = {"bahdanau": BahdanauDecoder, "luong": LuongDecoder}


class Vocabularies(NamedTuple):
    """The words of both sides."""

    source: Words
    target: Words


class TextModel(nn.Module):
    """Words of a source to those of a target."""

    def __init__(self, recipe: TextRecipe, row: Row, words: Vocabularies) -> None:
        super().__init__()
        config = recipe.decoder_of(row)
        self.words, self.copies = words, recipe.copies
        self.encoder = TokenEncoder(recipe.encoder, len(words.source))
        self.decoder: AttentionDecoder = DECODERS[config.kind](
            config, self.encoder.width, len(words.target), text=True, copies=recipe.copies
        )
        width = 2 * self.decoder.state_width
        self.gate = nn.Linear(config.embedding, 1, bias=False) if recipe.copies else None
        self.bridge = nn.Linear(self.encoder.width, width) if recipe.first == "encoder" else None

    def first(self, encoded: Encoded) -> LSTMState | None:
        """Return the decoder's first state, of the encoder's last; None for zeros."""
        if self.bridge is None:
            return None
        hidden, cell = self.bridge(encoded.last).chunk(2, 1)
        return LSTMState(torch.tanh(hidden), cell)

    def log_probs(
        self, logits: Tensor, previous: Tensor, weights: Tensor, copies: Tensor, extra: int
    ) -> Tensor:
        """Return the log-probabilities (B, U, N) of words, the end, and what may be copied.

        Args:
            logits: (B, U, V + 1) of the decoder; with its part of the gate last where it copies.
            previous: (B, U) the word before each.
            weights: (B, U, T) of the source's words.
            copies: (B, T) the source's words as `mixture` takes them.
            extra: the most words of one source that the vocabulary lacks; N is V + 1 and these.
        """
        if self.gate is None:
            return logits.log_softmax(2)
        gate = logits[..., -1:] + self.gate(self.decoder.embedding(previous))
        return mixture(logits[..., :-1], gate, weights, copies, self.decoder.end + 1 + extra)
