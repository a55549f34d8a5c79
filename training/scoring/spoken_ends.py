"""When characters end in the sound, by an aligner that does not stream.

A recogniser's own CTC alignment is late itself, so delays that are counted from it look short. An
offline aligner of phones in context knows when a phone is over. A letter ends where the last of its
phones ends; one without a phone, as the e of "made", ends with the letter before it.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cortado.model.arrays import Samples
from cortado.model.features.framing import HOP, SAMPLE_RATE, WINDOW
from cortado.model.features.log_mel import LogMel
from cortado.training.alignment.letter_phones import LetterPhones
from cortado.training.alignment.triphones import TriphoneAligner, phone_sequence
from cortado.training.data.pronounce import Lexicon, lexicon

FRAME_OFFSET = (WINDOW - HOP) / 2 / SAMPLE_RATE  # s from the middle of a hop to its window's


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
        """Return the end (U,) of each character in seconds, NaN for spaces.

        All are NaN if a word has no pronunciation, or the frames are too few for the phones.
        """
        ends = np.full(len(text), np.nan)
        phones = phone_sequence(text, self.lexicon)
        logmel = self.features(torch.from_numpy(samples)[None])[0].numpy()
        spans = self.aligner.spans(logmel, phones) if phones else None
        if not spans:
            return ends
        start = 0
        for number, word in enumerate(text.split()):
            start = text.index(word, start)
            own = [span for span in spans if span.word == number]
            counts = self.letter_phones.segment(word, self.lexicon[word])
            stops = np.array([own[max(count, 1) - 1].stop for count in counts])  # frames
            ends[start : start + len(word)] = stops * HOP / SAMPLE_RATE - FRAME_OFFSET
            start += len(word)
        return ends
