"""The attention weights of each character of a recording."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.arrays import Samples
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.emission import Character
from cortado.model.features.framing import HOP, SAMPLE_RATE, SAMPLES_PER_STEP, STEP_SECONDS
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import (
    decode,
    flushed,
    modes,
    seconds,
    teacher_forced,
    transcribe_offline,
)

Matrix = NDArray[np.float32]


class Attending(NamedTuple):
    """A recording, its characters and the attention to each; U characters, T encoder frames."""

    logmel: Matrix  # (F, N) at 10 ms
    characters: tuple[Character, ...]  # or phones, with the ends of the frames of the stops
    weights: Matrix  # (U, T) of the encoder frames in the contexts; (0, T) for the CTC head alone
    expected: Matrix | None  # (U, T) the probability of stopping there, as in training
    delay: int  # encoder frames: frame k ends at (k + 1 - delay) * 40 ms
    separator: str  # between two characters: a space between phones

    @property
    def text(self) -> str:
        """What the characters spell."""
        return self.separator.join(one.text for one in self.characters)

    def times(self, frame: int) -> tuple[float, float]:
        """Return when an encoder frame begins and ends, in seconds."""
        end = (frame + 1 - self.delay) * STEP_SECONDS
        return end - STEP_SECONDS, end

    @property
    def duration(self) -> float:
        """Seconds of the recording, at least those of a step."""
        return self.logmel.shape[1] * HOP / SAMPLE_RATE


@torch.inference_mode()
def attend(
    recognizer: Recognizer, samples: Samples, text: str | None = None, expected: bool = False
) -> Attending:
    """Return what the recogniser attends to in a recording at 16 kHz.

    A monotonic attention stops as in serving; other attentions look at all frames at once. With a
    text, its characters take the place of those that the recogniser would choose, as far as the
    attention stops for them.

    Args:
        recognizer: in evaluation mode.
        samples: (N,) in [-1, 1].
        text: the reference; None for the recogniser's own text.
        expected: give the expected alignment too.

    Raises: ValueError for a text with characters that the vocabulary lacks.
    """
    vocabulary = recognizer.config.vocabulary
    symbols = None if text is None else vocabulary.encode(text)
    shown = np.pad(samples, (0, max(0, SAMPLES_PER_STEP - len(samples))))  # at least one step
    logmel = recognizer.features.logmel(torch.from_numpy(shown).unsqueeze(0))[0]
    encoded = recognizer.encode(flushed(samples).unsqueeze(0))[0]
    decoder = recognizer.decoder
    if not isinstance(decoder, AttentionDecoder):
        (decoded,) = decode(recognizer, encoded[None], torch.tensor([len(encoded)]), "hard")
        characters = [Character(vocabulary.names[k], seconds(recognizer, at)) for k, at in decoded]
        weights = encoded.new_zeros(0, len(encoded))
    elif decoder.online:
        characters, weights = _scanned(recognizer, decoder, encoded, symbols)
    else:
        characters, weights = _whole(recognizer, samples, text)
    alpha = None
    if expected and isinstance(decoder, AttentionDecoder):
        written = vocabulary.separator.join(one.text for one in characters)
        written = written if text is None else text
        alpha = teacher_forced(recognizer, samples, written).alpha.numpy() if written else None
    return Attending(
        logmel.t().numpy(),
        tuple(characters),
        weights.numpy(),
        alpha,
        recognizer.delay_steps,
        vocabulary.separator,
    )


def _whole(
    recognizer: Recognizer, samples: Samples, text: str | None
) -> tuple[list[Character], Tensor]:
    """Return the characters, each where it is looked at most, and the weights (U, T)."""
    if text is None:
        recognised = transcribe_offline(recognizer, samples, modes(recognizer)[0])
        text = "".join(one.text for one in recognised)
    weights = teacher_forced(recognizer, samples, text).weights
    frames = weights.argmax(1).tolist()
    vocabulary = recognizer.config.vocabulary
    pairs = zip(vocabulary.encode(text), frames, strict=True)
    return [Character(vocabulary.names[one], seconds(recognizer, at)) for one, at in pairs], weights


def _scanned(
    recognizer: Recognizer, decoder: AttentionDecoder, encoded: Tensor, symbols: list[int] | None
) -> tuple[list[Character], Tensor]:
    """Return the characters at their stops and the weights (U, T)."""
    names = recognizer.config.vocabulary.names
    found: list[Character] = []
    rows: list[Tensor] = []
    frame = 0

    def choose(logits: Tensor, weights: Tensor) -> Tensor:
        best = logits.argmax(1)
        if symbols is not None:
            if len(found) == len(symbols):
                return best  # after the text; not shown
            best = torch.tensor([symbols[len(found)]])
        rows.append(_row(weights[0], frame, len(encoded)))
        found.append(Character(names[int(best)], seconds(recognizer, frame)))
        return best

    state = decoder.initial_state(1)
    for frame, value in enumerate(encoded.split(1)):  # noqa: B007 (`choose` reads the frame)
        _, state = decoder.step(value.unsqueeze(0), state, choose=choose)
    return found, torch.stack(rows) if rows else encoded.new_zeros(0, len(encoded))


def _row(weights: Tensor, frame: int, frames: int) -> Tensor:
    """Return (T,) with the (w,) weights of a window that ends at `frame`."""
    row = weights.new_zeros(frames)
    inside = min(len(weights), frame + 1)
    row[frame + 1 - inside : frame + 1] = weights[len(weights) - inside :]
    return row
