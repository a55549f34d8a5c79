"""What one worker process of `cortado synth` does: speak, disguise and write utterances."""

import logging
import multiprocessing
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import soundfile

from cortado.training.synthesis.effects import SAMPLE_RATE, Effects, Samples, apply_effects
from cortado.training.synthesis.engines import EngineError, Voice, speak

FALLBACK = Voice("espeak-ng", "en-us", rate=1.0, pitch=0.5, word_gap=0)
BIT_RATE = 26_000  # bit/s, that of the real corpora
# A file of a single page whose end is trimmed is malformed to libsndfile, or has its trim ignored.
# No utterance is shorter than this, with the silence at its ends.
OPUS_PAGE = 100_000  # us
OPUS_COMPLEXITY = 3  # of 10: three times as fast as 10, not to be heard at this bit rate

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


_folder = Path()  # of a worker process, set once by start_worker
_babble: Sequence[Samples] = ()


def start_worker(folder: Path, babble: Sequence[Samples]) -> None:
    """Give a fresh worker process the corpus's folder and the voices of the crowd."""
    global _folder, _babble
    _folder, _babble = folder, babble
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone: a killed pool would leave it waiting for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def work(utterances: Sequence[Utterance]) -> list[dict[str, Any]]:
    """Return a manifest row per utterance, with `error` in place of `duration` if it failed."""
    return [make_utterance(one, _folder, _babble) for one in utterances]


def make_utterance(one: Utterance, folder: Path, babble: Sequence[Samples]) -> dict[str, Any]:
    """Write the audio of one utterance and return its row of the manifest.

    An engine that fails is replaced by espeak-ng, which the row then says (`fallback`).
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
    write_audio(folder / one.audio, samples)
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


def write_audio(path: Path, samples: Samples) -> None:
    """Write (N,) samples at 16 kHz to `path`, whole or not at all, as its suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    if path.suffix == ".opus":
        _write_opus(part, samples)
    else:
        soundfile.write(part, samples, SAMPLE_RATE, format="FLAC")
    os.replace(part, path)


def _write_opus(path: Path, samples: Samples) -> None:
    """Encode by PyAV: libsndfile fixes the highest complexity, at a twelfth of the speed."""
    options = {"compression_level": str(OPUS_COMPLEXITY)}
    # Bit-exact: no random serial number, so that a rerun gives the same bytes.
    layout = {"fflags": "+bitexact", "page_duration": str(OPUS_PAGE)}
    with av.open(str(path), "w", format="ogg", options=layout) as container:
        stream = container.add_stream("libopus", rate=SAMPLE_RATE, options=options)
        stream.layout = "mono"
        stream.format = "flt"
        stream.bit_rate = BIT_RATE
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="flt", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
