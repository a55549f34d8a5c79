"""Monitoring of a run: progress, TensorBoard scalars, validation, pictures of the alignment."""

import copy
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jiwer
import torch
from matplotlib.figure import Figure
from torch.utils.tensorboard import SummaryWriter

from cortado.model.adaptation import own
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.features.speaker import by_speaker
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import flushed, transcribe_offline
from cortado.model.streaming.interface import Samples
from cortado.model.streaming.recordings import transcribe_many
from cortado.training.data.speakers import transcribed
from cortado.training.learning.recipe import Stage

log = logging.getLogger(__name__)
EVERY = 10  # updates between two points of a curve


class Recording(NamedTuple):
    """A recording to validate with."""

    samples: Samples
    text: str  # reference
    id: str
    speaker: str = ""


ValidationSet = Sequence[Recording]
Transcribe = Callable[[Recognizer, Sequence[Samples]], Iterable[str]]


class Monitor:
    """Progress, curves and validation of a run, in its first process."""

    def __init__(
        self,
        output: Path,
        sets: Mapping[str, ValidationSet],
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        """Watch a run that writes to `output`."""
        self.output, self.sets, self.progress = output, sets, progress
        self.writer = SummaryWriter(str(output / "tensorboard"))
        self.sums: dict[str, float] = {}
        self.counted, self.audio, self.since = 0, 0.0, time.monotonic()

    def updated(
        self, stage: Stage, step: int, rate: float, parts: dict[str, float], audio: float
    ) -> None:
        """Take note of an update: its losses, and the seconds of its audio."""
        for name, value in parts.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.counted += 1
        self.audio += audio
        if step % EVERY:
            return
        means = {name: value / self.counted for name, value in self.sums.items()}
        speed = self.audio / (time.monotonic() - self.since)
        for name, value in {**means, "rate": rate, "times_real_time": speed}.items():
            self.writer.add_scalar(f"training/{name}", value, step)
        text = " ".join(f"{name} {value:.3f}" for name, value in means.items())
        if self.progress:
            self.progress(step, f"{stage.name}: {text}, {speed:.0f} x real time")
        if step % (10 * EVERY) == 0:
            log.info("step %d %s: %s, %.0f x real time", step, stage.name, text, speed)
        self.sums, self.counted, self.audio, self.since = {}, 0, 0.0, time.monotonic()

    def validate(self, model: Recognizer, stage: Stage, step: int) -> None:
        """Score the averaged weights: the CTC head's greedy path, and the online decoder."""
        model.eval()
        streams = model.decoder.online and not by_speaker(model.config)
        paths: dict[str, Transcribe] = {"ctc": ctc_transcripts}
        if stage.attention:
            paths["online" if streams else "offline"] = decoder_transcripts
        for name, utterances in self.sets.items():
            references = [one.text for one in utterances]
            samples = [one.samples for one in utterances]
            hypotheses = {
                path: transcribed(model, samples, utterances, transcribe)
                for path, transcribe in paths.items()
            }
            for path, transcripts in hypotheses.items():
                self._scored(f"{name}/{path}", references, transcripts, step)
        if stage.attention and isinstance(model.decoder, AttentionDecoder):
            self._draw(model, step)
        self.since = time.monotonic()

    def _scored(self, name: str, references: list[str], texts: list[str], step: int) -> None:
        scores = {"cer": jiwer.cer(references, texts), "wer": jiwer.wer(references, texts)}
        for kind, score in scores.items():
            self.writer.add_scalar(f"{name}/{kind}", score, step)
        log.info("step %d %s: CER %.3f WER %.3f", step, name, scores["cer"], scores["wer"])
        log.info("  said: %s", references[0])
        log.info("  read: %s", texts[0])
        with open(self.output / "validation.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "set": name} | scores) + "\n")

    def _draw(self, model: Recognizer, step: int) -> None:
        """Draw the expected alignment of the first utterance that has a text."""
        spoken = [one for utterances in self.sets.values() for one in utterances if one.text]
        if not spoken:
            return
        samples, text = spoken[0].samples, spoken[0].text
        model = own(model, samples)
        vocabulary = model.config.vocabulary
        symbols = vocabulary.encode(text)
        targets = torch.tensor([symbols])
        with torch.no_grad():
            encoded = model.encode(flushed(samples).unsqueeze(0))
            mask = torch.ones(encoded.shape[:2], dtype=torch.bool)
            alpha = model.decoder.teacher_forced(encoded, mask, targets).alpha[0, :-1].numpy()
        figure = Figure(figsize=(10, 6), layout="constrained")
        axes = figure.subplots()
        axes.imshow(alpha, aspect="auto", origin="lower", cmap="magma", interpolation="nearest")
        axes.set_xlabel("encoder frame (40 ms)")
        names = [vocabulary.names[symbol].replace(" ", "_") for symbol in symbols]
        axes.set_yticks(range(len(names)), names, fontsize=5)
        self.writer.add_figure("expected alignment", figure, step)

    def close(self) -> None:
        """Write what is left."""
        self.writer.close()


def decoder_transcripts(model: Recognizer, utterances: Sequence[Samples]) -> list[str]:
    """Return the decoder's texts, decoded as streams are where it can."""
    if model.decoder.online:
        found = dict(transcribe_many(ReferenceRecognizer(copy.deepcopy(model)), utterances))
        return ["".join(c.text for c in found[k]) for k in range(len(utterances))]
    written = [transcribe_offline(model, samples, "expected") for samples in utterances]
    return ["".join(c.text for c in one) for one in written]


@torch.no_grad()
def ctc_transcripts(model: Recognizer, utterances: Sequence[Samples]) -> Iterator[str]:
    """Yield the texts on the CTC head's greedy paths."""
    vocabulary = model.config.vocabulary
    for samples in utterances:
        best = model.ctc(model.encode(flushed(samples).unsqueeze(0)))[0].argmax(1)
        symbols = best.unique_consecutive().tolist()
        yield vocabulary.decode(s for s in symbols if s != vocabulary.blank)
