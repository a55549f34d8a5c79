"""A recogniser with random weights that writes different text for different audio."""

from copy import deepcopy
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.attention.config import AttentionConfig
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.recognizer import Recognizer

TINY = RecognizerConfig(
    encoder=EncoderConfig(channels=4, width=16, layers=1),
    decoder=DecoderConfig(width=16, embedding=8, attention=AttentionConfig(width=8)),
)
TINY_SEED = 10  # of a dozen, the one with which it writes the most symbols
SEED = 2  # of the few tried, the one whose stops and symbols depend most on the audio
GAIN = 10
SURE = 30  # logits grow by as much: a search takes what is unsure for nothing


def noise(seed: int, seconds: float) -> NDArray[np.float32]:
    """Noise at 16 kHz whose loudness swings a few times a second, as that of speech does."""
    random = np.random.default_rng(seed)
    count = round(16000 * seconds)
    swing = np.abs(np.sin(np.arange(count) / random.uniform(1000, 5000)))
    return (random.normal(0, 0.05, count) * swing).astype(np.float32)


def encoded(recognizer: Recognizer, samples: NDArray[np.float32]) -> Tensor:
    """The (T, H) encoder frames of a stream; steps need none of the kernels that training has."""
    features, encoder = recognizer.features.initial_state(1), recognizer.encoder.initial_state(1)
    frames = []
    for step in torch.from_numpy(samples)[None].split(SAMPLES_PER_STEP, 1)[:-1]:
        heard, features = recognizer.features.step(step, features)
        frame, encoder = recognizer.encoder.step(heard, encoder)
        frames.append(frame[:, 0])
    return torch.cat(frames)


def untrained(config: RecognizerConfig | None = None, seed: int = SEED) -> ReferenceRecognizer:
    """A recogniser, by default as large as the real one, that stops at about half of the frames.

    Each is the caller's own: what one test does to its weights is not felt by another.
    """
    return ReferenceRecognizer(deepcopy(_made(config or RecognizerConfig(), seed)))


@cache
def online() -> ReferenceRecognizer:
    """A tiny one that tests share: none changes its weights."""
    return untrained(TINY, TINY_SEED)


@cache
def _made(config: RecognizerConfig, seed: int) -> Recognizer:
    """Untrained encoders give nearly the same frame for all audio, so what reads the frames is
    set to standardise them: what is left is what differs.
    """
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        recognizer = Recognizer(config).eval()
        frames = encoded(recognizer, noise(9, 3.0))
        mean, deviation = frames.mean(0), frames.std(0) + 1e-6

        def standardise(weight: Tensor, bias: Tensor, gain: float = 1) -> None:
            weight.mul_(gain / deviation)
            bias.sub_(weight @ mean)

        decoder = recognizer.decoder
        attention, embedding = decoder.attention, decoder.embedding.embedding_dim
        for energy in (attention.monotonic, attention.chunkwise):
            standardise(energy.key.weight, energy.key.bias, GAIN)
        standardise(decoder.lstm.weight_ih[:, embedding:], decoder.lstm.bias_ih)
        standardise(decoder.output.weight[:, decoder.lstm.hidden_size :], decoder.output.bias)
        attention.monotonic.bias.zero_()
        decoder.output.weight.mul_(SURE)
        decoder.output.bias.mul_(SURE)
    return recognizer
