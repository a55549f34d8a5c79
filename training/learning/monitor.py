"""Monitoring of a run: progress, TensorBoard scalars, validation, pictures of the alignment."""

import copy
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import jiwer
import torch
from torch.utils.tensorboard import SummaryWriter

from cortado.model.adaptation import adapted_to_recording
from cortado.model.arrays import Samples
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.model.decoder.decoder import AttentionDecoder
from cortado.model.progress import unwatched
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import flushed, transcribe_offline
from cortado.model.streaming.recordings import transcribe_many
from cortado.model.whole_file import named
from cortado.training.data.speakers import transcribed
from cortado.training.learning.stage import Stage
from cortado.training.scoring.attending import attend
from cortado.training.scoring.attention_picture import figure

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
        progress: Callable[[int, str], None] = unwatched,
    ) -> None:
        """Watch a run that writes to `output`."""
        self.output, self.sets, self.progress = output, sets, progress
        self.writer = SummaryWriter(str(output / "tensorboard"))
        self.parts: dict[str, list[float]] = {}  # since the last point; stages have their own
        self.audio, self.since = 0.0, time.monotonic()

    def updated(
        self, stage: Stage, step: int, rate: float, parts: dict[str, float], audio: float
    ) -> None:
        """Record an update: its losses, and the seconds of its audio."""
        for name, value in parts.items():
            self.parts.setdefault(name, []).append(value)
        self.audio += audio
        if step % EVERY:
            return
        means = {name: fmean(values) for name, values in self.parts.items()}
        speed = self.audio / (time.monotonic() - self.since)
        for name, value in {**means, "rate": rate, "times_real_time": speed}.items():
            self.writer.add_scalar(f"training/{name}", value, step)
        text = " ".join(f"{name} {value:.3f}" for name, value in means.items())
        self.progress(step, f"{stage.name}: {text}, {speed:.0f} x real time")
        if step % (10 * EVERY) == 0:
            log.info("step %d %s: %s, %.0f x real time", step, stage.name, text, speed)
        self.parts, self.audio, self.since = {}, 0.0, time.monotonic()

    def validate(self, model: Recognizer, stage: Stage, step: int) -> dict[str, float]:
        """Score the averaged weights: the CTC head's greedy path and the decoder, if trained.

        Returns:
            Error rates of what the model decodes with, means over the sets; none where the stage
            does not train it.
        """
        model.eval()
        streams = model.decoder.online and not model.config.features.by_speaker
        paths = dict[str, Transcribe]()
        if stage.ctc or not stage.attention:
            paths["ctc"] = ctc_transcripts
        if stage.attention:
            paths["online" if streams else "offline"] = decoder_transcripts
        own_path = [*paths][-1]
        trained = bool(stage.attention) or not isinstance(model.decoder, AttentionDecoder)
        found = []
        for name, utterances in self.sets.items():
            references = [one.text for one in utterances]
            samples = [one.samples for one in utterances]
            for path, transcribe in paths.items():
                transcripts = transcribed(model, samples, utterances, transcribe)
                rates = error_rates(references, transcripts, bool(model.config.vocabulary.phones))
                self._write_scores(f"{name}/{path}", rates, step)
                log.info("  reference:  %s", references[0])
                log.info("  hypothesis: %s", transcripts[0])
                if path == own_path:
                    found.append(rates)
        if stage.attention and isinstance(model.decoder, AttentionDecoder):
            self._draw(model, step)
        self.since = time.monotonic()
        if not trained or not found:
            return {}
        return {kind: fmean(rates[kind] for rates in found) for kind in found[0]}

    def _write_scores(self, name: str, rates: Mapping[str, float], step: int) -> None:
        for kind, rate in rates.items():
            self.writer.add_scalar(f"{name}/{kind}", rate, step)
        text = " ".join(f"{kind.upper()} {rate:.3f}" for kind, rate in rates.items())
        log.info("step %d %s: %s", step, name, text)
        path = self.output / "validation.jsonl"
        with named(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "set": name, **rates}) + "\n")

    def _draw(self, model: Recognizer, step: int) -> None:
        """Draw the expected alignment of the first utterance with a text that can be spelled."""
        vocabulary = model.config.vocabulary
        every = [one for utterances in self.sets.values() for one in utterances]
        spelled = [one for one in every if one.text and vocabulary.spells(one.text)]
        if not spelled:
            return
        samples, text = spelled[0].samples, spelled[0].text
        found = attend(
            adapted_to_recording(model, samples), samples, text, expected=model.decoder.online
        )
        self.writer.add_figure("expected alignment", figure(found, text), step)

    def close(self) -> None:
        """Write what is still buffered."""
        self.writer.close()


def error_rates(references: list[str], texts: list[str], phones: bool) -> dict[str, float]:
    """Return the error rates of characters and words, or that of phones between spaces."""
    if phones:
        return {"per": jiwer.wer(references, texts)}
    return {"cer": jiwer.cer(references, texts), "wer": jiwer.wer(references, texts)}


def decoder_transcripts(model: Recognizer, utterances: Sequence[Samples]) -> list[str]:
    """Return the decoder's texts, decoded as streams are where it can."""
    if model.decoder.online:
        characters = dict(transcribe_many(ReferenceRecognizer(copy.deepcopy(model)), utterances))
        return ["".join(c.text for c in characters[k]) for k in range(len(utterances))]
    offline = [transcribe_offline(model, samples, "expected") for samples in utterances]
    return ["".join(c.text for c in characters) for characters in offline]


@torch.no_grad()
def ctc_transcripts(model: Recognizer, utterances: Sequence[Samples]) -> Iterator[str]:
    """Yield the texts on the CTC head's greedy paths."""
    vocabulary = model.config.vocabulary
    for samples in utterances:
        best = model.ctc(model.encode(flushed(samples).unsqueeze(0)))[0].argmax(1)
        symbols = best.unique_consecutive().tolist()
        yield vocabulary.decode(s for s in symbols if s != vocabulary.blank)
