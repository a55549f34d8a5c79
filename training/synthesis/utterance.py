"""One utterance of `cortado synth`: spoken, changed by its effects, written as audio."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cortado.model.arrays import Samples
from cortado.model.features.framing import SAMPLE_RATE
from cortado.model.whole_file import whole
from cortado.training.data.opus import write_opus
from cortado.training.synthesis.effects import Effects, apply_effects
from cortado.training.synthesis.engines import EngineError, Voice, speak

FALLBACK = Voice("espeak-ng", "en-us", rate=1.0, pitch=0.5, word_gap=0)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Utterance:
    """One utterance as drawn: everything that its audio depends on, besides the babble."""

    index: int
    seed: int
    text: str
    voice: Voice
    effects: Effects
    audio: str  # path relative to the corpus's folder

    @property
    def id(self) -> str:
        """Return the name in the manifest; the order of names is the order of numbers."""
        return Path(self.audio).stem


def make_utterance(one: Utterance, folder: Path, babble: Sequence[Samples]) -> dict[str, Any]:
    """Write the audio of one utterance and return its row of the manifest.

    An engine that fails is replaced by espeak-ng, which the row then says (`fallback`). Where that
    fails, too, the row is the id and the `error`.
    """
    row: dict[str, Any] = {"id": one.id}
    voice = one.voice
    try:
        speech, rate = speak(one.text, voice)
    except EngineError as error:
        logger.warning("%s: %s; trying espeak-ng", one.id, error)
        row["fallback"] = str(error)
        voice = FALLBACK
        try:
            speech, rate = speak(one.text, voice)
        except EngineError as second:
            return {"id": one.id, "error": f"{error}; {second}"}
    noise = np.random.default_rng([one.seed, 3, one.index])
    samples = apply_effects(speech, rate, one.effects, babble, noise)
    path = folder / one.audio
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        write_opus(part, samples)
    row |= {
        "audio": one.audio,
        "duration": len(samples) / SAMPLE_RATE,
        "speaker": f"{voice.engine}-{voice.name}-{round(100 * one.effects.shift)}",
        "text": one.text,
        "engine": voice.engine,
        "voice": voice.name,
        "snr": None if one.effects.snr is None else round(one.effects.snr, 1),
    }
    return row
