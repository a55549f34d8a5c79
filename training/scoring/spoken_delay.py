"""Emission delay against what was said: how long after its sound a character is written.

`training.delay` counts from the recogniser's own CTC alignment, which waits for what follows. Here
a character's end is that of its phones by an aligner that waits for nothing (`training.spelt`).
"""

from collections.abc import Callable, Sequence

import torch

from cortado.model.emission import Character
from cortado.model.features.log_mel import LogMel
from cortado.training.alignment.aligner import Frames
from cortado.training.alignment.spelt import Spelling, letter_ends
from cortado.training.alignment.triphones import Triphones
from cortado.training.data.manifest import Utterance
from cortado.training.data.pronounce import Lexicon
from cortado.training.data.recordings import samples_of
from cortado.training.scoring.delay import Delay, delays, summary

Heard = tuple[Utterance, Sequence[Character]]


def spoken_delay(
    heard: Sequence[Heard],
    aligner: Triphones,
    spelling: Spelling,
    lexicon: Lexicon,
    offset: float,
    frames: Callable[[Utterance], Frames] | None = None,
) -> Delay | None:
    """Return the percentiles of the delays of characters that were heard right, spaces left out.

    Args:
        heard: utterances, and what was written of each.
        aligner: that finds the phones in the recordings.
        spelling: whose the phones are.
        lexicon: of the words.
        offset: `training.delay.emission_offset` of the recogniser.
        frames: gives an utterance's (T, F) log-mel frames; those of its recording if None.
    """
    found: list[float] = []
    for utterance, characters in heard:
        logmel = frames(utterance) if frames else recorded(utterance)
        ends = letter_ends(aligner, spelling, lexicon, logmel, utterance.text)
        found += delays(utterance.text, ends, characters, offset)
    return summary(found, offset)


@torch.inference_mode()
def recorded(utterance: Utterance) -> Frames:
    """Return the (T, F) log-mel frames of an utterance's recording."""
    logmel: Frames = LogMel()(torch.from_numpy(samples_of(utterance))[None])[0].numpy()
    return logmel
