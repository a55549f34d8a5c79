"""When characters end in the sound, by an aligner that does not stream.

A recogniser's own CTC alignment is late itself, so delays that are counted from it look short. An
offline aligner of phones in context knows when a phone is over.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cortado.model.audio.decode import Samples
from cortado.model.features.log_mel import LogMel
from cortado.training.alignment.letter_ends import LetterPhones, letter_ends
from cortado.training.alignment.triphones import TriphoneAligner
from cortado.training.data.pronounce import Lexicon, lexicon


class SpokenEnds:
    """The ends of a text's characters in a recording."""

    def __init__(self, aligner: TriphoneAligner, lexicon: Lexicon) -> None:
        """Align with the pronunciations of a lexicon."""
        self.aligner, self.lexicon = aligner, lexicon
        self.letter_phones = LetterPhones(lexicon)
        self.features = LogMel()

    @classmethod
    def load(cls, path: Path, texts: Iterable[str]) -> "SpokenEnds":
        """Return those of an aligner's file; espeak-ng pronounces the words of the texts.

        Raises:
            OSError: no such file.
            ValueError: not an aligner.
            PronunciationError: espeak-ng is missing, or has failed.
        """
        return cls(TriphoneAligner.load(path), lexicon(texts, path.parent / "pronunciations.json"))

    @torch.inference_mode()
    def ends(self, samples: Samples, text: str) -> NDArray[np.float64]:
        """Return the end (U,) of each character in seconds, NaN for spaces and unknown words."""
        logmel = self.features(torch.from_numpy(samples)[None])[0].numpy()
        return letter_ends(self.aligner, self.letter_phones, self.lexicon, logmel, text)
