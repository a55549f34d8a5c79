"""Batches of text to train the decoder alone: pieces of sentences, drawn by seed and step."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cortado.model.vocabulary import Vocabulary
from cortado.training.data.corpora.source import read_text

PIECES = 64  # in a batch
PIECE = 60  # symbols at most, about four seconds of speech


class TextSampler:
    """Draws pieces that begin at words, like the sentences of an utterance."""

    def __init__(self, path: Path, vocabulary: Vocabulary, seed: int) -> None:
        """Read a file of one sentence a line.

        Raises:
            ValueError: a character that the vocabulary lacks, no sentence, or a vocabulary of
                phones, which nobody writes sentences in.
            OSError: the file cannot be read.
        """
        if vocabulary.phones:
            raise ValueError(f"expected a vocabulary of characters for {path}, got phones")
        self._seed = seed
        self._lines: list[list[int]] = []
        self._space = vocabulary.encode(" ")[0]
        for number, line in enumerate(read_text(path).splitlines(), 1):
            try:
                symbols = vocabulary.encode(" ".join(line.split()))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
            if symbols:
                self._lines.append(symbols)
        if not self._lines:
            raise ValueError(f"{path}: expected a sentence a line, got none")

    def batch(self, number: int) -> tuple[Tensor, Tensor]:
        """Return the symbols (B, U) of batch `number`, 0 on padding, and their lengths (B,)."""
        rng = np.random.default_rng([self._seed, 3, number])
        text = torch.zeros(PIECES, PIECE, dtype=torch.long)
        lengths = torch.zeros(PIECES, dtype=torch.long)
        for row in range(PIECES):
            line = self._lines[int(rng.integers(len(self._lines)))]
            starts = [0] + [k + 1 for k, symbol in enumerate(line) if symbol == self._space]
            start = starts[int(rng.integers(len(starts)))]
            piece = line[start : start + PIECE]
            text[row, : len(piece)] = torch.tensor(piece)
            lengths[row] = len(piece)
        return text, lengths
