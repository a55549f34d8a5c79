"""A corpus of tones, one for each letter, and a recogniser small enough to learn it in a moment."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cortado.model.attention import AttentionConfig
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.features.framing import FRAMES_PER_STEP, MELS
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import decode, modes
from cortado.model.vocabulary import ENGLISH
from cortado.tests.training.recorded import write_corpus
from cortado.training.data.augment import Augmentation
from cortado.training.data.batches import Batch, collate
from cortado.training.data.log_mel_cache import CachedCorpus
from cortado.training.data.tied_states import UNKNOWN, States
from cortado.training.learning import recipe as recipes
from cortado.training.learning.losses import losses
from cortado.training.learning.recipe import Corpus, Recipe
from cortado.training.learning.stage import Stage

MODEL = RecognizerConfig(
    encoder=EncoderConfig(channels=2, width=8, layers=1),
    decoder=DecoderConfig(width=8, embedding=4, attention=AttentionConfig(width=8)),
)
TEXTS = ["a cat", "it's", "bee", "see a tree", "no", "x"]
PLAIN = Augmentation(  # changes nothing
    tempo=0, warp=0, gain=0, noise=0, babble=0, time_masks=0, band_masks=0, silence=0
)
RECIPES = Path(recipes.__file__).parents[1] / "recipes"
SHIPPED = sorted(RECIPES.glob("*.toml"))
LETTER = 0.12  # seconds


def fresh(config: RecognizerConfig = MODEL, seed: int = 0) -> Recognizer:
    """Return a recogniser with the initial weights of a seed."""
    torch.manual_seed(seed)
    return Recognizer(config)


def narrow(config: RecognizerConfig) -> RecognizerConfig:
    """Return a model that is fast, and in all but its widths another's."""
    decoder = config.decoder
    attention = replace(decoder.attention, width=16)
    return replace(
        config,
        encoder=replace(config.encoder, width=16),
        decoder=replace(decoder, width=16, attention=attention),
    )


def spoken(text: str) -> NDArray[np.float32]:
    """A tone for each letter, with a little noise, at 16 kHz."""
    at = np.arange(round(16_000 * LETTER)) / 16_000
    tones = [np.sin(2 * np.pi * (200 + 100 * ENGLISH.index(letter)) * at) for letter in text]
    noise = np.random.default_rng(len(text)).normal(0, 0.01, len(at) * len(text))
    return (0.3 * np.concatenate(tones) + noise).astype(np.float32)


def corpus(
    folder: Path,
    texts: list[str] = TEXTS,
    name: str = "train",
    speakers: Sequence[str] = ("somebody",),
) -> Path:
    """Write the recordings of texts, of the speakers in turn; return their manifest."""
    return write_corpus(folder, ((spoken(text), text) for text in texts), name, speakers)


def letters_as_states(tones: CachedCorpus) -> States:
    """The letter of each frame of a corpus' cache, as if each were a state of phones."""
    found = np.full(sum(u.frames for u in tones.utterances), UNKNOWN, np.int16)
    for utterance in tones.utterances:
        for number, letter in enumerate(utterance.text):
            start = utterance.start + round(100 * LETTER * number)
            found[start : start + round(100 * LETTER)] = ord(letter) % 32
    return found


def recipe(manifest: Path) -> Recipe:
    """Return a run of two short stages, with every loss and every augmentation."""
    first = Stage("encoder", 3, ctc=1.0, learning_rate=3e-3, warmup=2)
    second = Stage("attention", 4, attention=1.0, stop=0.3, quantity=0.1, noise=1.0)
    return Recipe(
        name="tiny",
        corpora=(Corpus(manifest, 1.0),),
        validation=(manifest,),
        validation_utterances=2,
        stages=(first, replace(second, corruption=0.1, smoothing=0.1)),
        batch_seconds=6.0,
        interval=2,
        model=MODEL,
    )


def takes_steps_and_decodes(model: Recognizer, stages: Sequence[Stage]) -> None:
    """Check that a recogniser has finite gradients in each stage, and decodes in each mode."""
    last, bands = len(model.config.vocabulary) - 1, model.config.features.bands
    heard = noise_batch([[0, 1, 2, last], [3]], (9, 5), bands)
    for stage in stages:
        parts = losses(model, heard, stage)
        assert all(value.isfinite() for value in parts.values())
        model.zero_grad()
        parts["total"].backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert all(grad.isfinite().all() for grad in grads)
        assert any(grad.any() for grad in grads)
    model.eval()
    with torch.no_grad():
        encoded = model.encode_logmel(heard.logmel)
    for mode in modes(model):
        if mode != "sampled":
            assert len(decode(model, encoded, heard.lengths, mode)) == 2


def noise_batch(texts: list[list[int]], steps: Sequence[int], bands: int = MELS) -> Batch:
    """Noise with these symbols, of these lengths in encoder steps without the flush."""
    random = np.random.default_rng(0)
    frames = [random.normal(-5, 2, (n * FRAMES_PER_STEP, bands)).astype(np.float32) for n in steps]
    return collate(frames, texts)
