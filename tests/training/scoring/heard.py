"""Evaluations of hypotheses that are given, without any recogniser."""

from pathlib import Path

from rich.console import Console, RenderableType

from cortado.model.emission import Character
from cortado.training.data.manifest import Segment, Utterance
from cortado.training.scoring.delay import Delay
from cortado.training.scoring.error_rates import score
from cortado.training.scoring.evaluate import Result, Rules, SetScore


def characters(text: str, first: float = 0.2) -> tuple[Character, ...]:
    """A character each 40 ms."""
    return tuple(Character(one, round(first + 0.04 * k, 3)) for k, one in enumerate(text))


def utterance(name: str, text: str, **others: object) -> Utterance:
    speaker = name.partition("-")[0]
    audio = Path(f"{name}.wav")
    return Utterance(name, audio, 2.0, speaker, text, **others)  # type: ignore[arg-type]


def phones(text: str) -> tuple[Segment, ...]:
    return tuple(Segment(one, 0.1 * k, 0.1 * k + 0.1) for k, one in enumerate(text.split()))


def printed(*parts: RenderableType) -> str:
    """What a terminal of 132 columns shows."""
    console = Console(width=132)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return capture.get()


def evaluated(
    said: list[Utterance], heard: list[str], rules: Rules | None = None, name: str = "tiny/dev"
) -> SetScore:
    """The score of hypotheses, a character each 40 ms and each 100 ms late."""
    rules = rules or Rules.named()
    results = tuple(
        Result(
            one,
            characters(text),
            rules.reference(one),
            rules.hypothesis(characters(text)),
            rules.unit,
            delays=tuple([0.1] * len(text)),
        )
        for one, text in zip(said, heard, strict=True)
    )
    pairs = [(one.reference, one.hypothesis) for one in results]
    found = score(pairs, [one.speaker for one in said], unit=rules.unit)
    delay = Delay(100.0, 100.0, 80.0, sum(map(len, heard)))
    return SetScore(name, "given", "online", rules, 0.1, 0.01, found, delay, results, ())
