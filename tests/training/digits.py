"""Digit strings that a made-up voice says, the same on every machine, and a recogniser for them.

A digit is a buzz, the harmonics of a pitch, whose two formants move from one place to another. Each
string has a pitch, a vocal tract, a tempo, a loudness and noise of its own, and pauses between.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cortado.model.attention import AttentionConfig
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.vocabulary import Vocabulary
from cortado.tests.training.recorded import write_corpus
from cortado.tests.training.tiny import PLAIN
from cortado.training.learning.recipe import Corpus, Recipe
from cortado.training.learning.stage import Stage

RATE = 16_000  # Hz
HIGHEST = 4_000  # Hz, of the harmonics
WIDTH = 120  # Hz, of a formant
FORMANTS = {  # Hz, both at the beginning and both at the end
    "0": ((300, 1900), (500, 900)),
    "1": ((400, 800), (650, 1100)),
    "2": ((350, 1800), (320, 900)),
    "3": ((450, 1300), (290, 2300)),
    "4": ((450, 800), (600, 900)),
    "5": ((750, 1200), (350, 2100)),
    "6": ((400, 2000), (300, 2600)),
    "7": ((550, 1700), (550, 1300)),
    "8": ((500, 2200), (280, 2300)),
    "9": ((700, 1100), (500, 1900)),
}
DIGITS = "".join(FORMANTS)
MODEL = RecognizerConfig(
    vocabulary=Vocabulary(DIGITS),
    encoder=EncoderConfig(channels=8, width=64, layers=1),
    decoder=DecoderConfig(width=64, embedding=16, attention=AttentionConfig(width=32)),
)


def digit(name: str, pitch: float, tract: float, seconds: float) -> NDArray[np.float64]:
    """Return a digit's samples (N,), its formants moved by a factor."""
    count = round(RATE * seconds)
    begin, end = np.array(FORMANTS[name])[..., None] * tract  # each (2, 1)
    formants = begin + (end - begin) * np.linspace(0, 1, count)  # (2, N)
    harmonics = pitch * np.arange(1, HIGHEST / pitch)[:, None]  # (K, 1)
    loudness = sum(np.exp(-(((harmonics - one) / WIDTH) ** 2)) for one in formants)
    buzz = (loudness * np.sin(2 * np.pi * harmonics * np.arange(count) / RATE)).sum(0)
    fade = np.minimum(np.arange(count), np.arange(count)[::-1]) / 300
    return np.asarray(buzz * fade.clip(max=1))


def spoken(text: str, random: np.random.Generator) -> NDArray[np.float32]:
    """Return the samples of a string of digits in a voice that is drawn."""
    pitch, tract, tempo = random.uniform([90, 0.92, 0.8], [220, 1.08, 1.25])
    parts = [np.zeros(round(RATE * random.uniform(0.05, 0.2)))]
    for one in text:
        height = pitch * random.uniform(0.95, 1.05)
        parts.append(digit(one, height, tract, random.uniform(0.16, 0.24) / tempo))
        parts.append(np.zeros(round(RATE * random.uniform(0.02, 0.08))))
    said = np.concatenate(parts)
    said *= random.uniform(0.1, 0.6) / np.abs(said).max()
    return (said + random.normal(0, 0.003, len(said))).astype(np.float32)


def strings(count: int, random: np.random.Generator) -> list[str]:
    """Return strings of two to five digits."""
    return ["".join(random.choice([*DIGITS], random.integers(2, 6))) for _ in range(count)]


def corpus(folder: Path, texts: Sequence[str], name: str, random: np.random.Generator) -> Path:
    """Write recordings of texts, each in a voice of its own; return their manifest."""
    speakers = [f"voice-{k}" for k in range(len(texts))]
    return write_corpus(folder, ((spoken(text, random), text) for text in texts), name, speakers)


def recipe(manifest: Path) -> Recipe:
    """Return a run as that of a real recogniser: the encoder by CTC, then everything."""
    encoder = Stage(
        "encoder",
        200,
        ctc=1.0,
        learning_rate=6e-3,
        final_learning_rate=6e-3,
        warmup=10,
        augmentation=PLAIN,
    )
    everything = Stage(
        "everything",
        1300,
        ctc=0.5,
        attention=1.0,
        stop=1.0,
        quantity=0.1,
        learning_rate=4e-3,
        final_learning_rate=2e-4,
        augmentation=PLAIN,
    )
    return Recipe(
        name="digits",
        corpora=(Corpus(manifest, 1.0),),
        validation=(),
        stages=(encoder, everything),
        batch_seconds=6.0,
        average=0.98,
        interval=10_000,
        model=MODEL,
    )
