"""The settings of a beam search, from a user's options or a model's; their name and identity."""

from numbers import Integral
from typing import NamedTuple

from cortado.model.arrays import buffers
from cortado.model.config import UNCALIBRATED, Confidence
from cortado.model.emission import FLUSH_STEPS
from cortado.model.features.framing import STEP_SECONDS
from cortado.model.search.language_model import NONE, Language

MAX_WIDTH, MAX_WAIT_MS = 256, 2000  # hypotheses; milliseconds until a symbol is committed
WIDE_PRUNING = 10.4  # nats, for more hypotheses than the default: for who has the time


class Beam(NamedTuple):
    """The settings of a beam search."""

    width: int = 128  # hypotheses; 1 for the greedy scan, without a search
    max_wait: int = 14  # frames after which the best hypothesis' symbols are committed anyway
    rival_wait: int = 18  # frames after which those with a symbol more are dropped
    pruning: float = 8.4  # nats below the best hypothesis at which others are dropped
    min_stop_probability: float = 0.2  # a stop less probable than this is not tried
    min_further_stop_probability: float = 0.45  # nor one less than this behind another at a frame
    agreement: float = 0.97  # share of the total probability that commits a symbol at once
    pause: int = 8  # frames without a letter after which a word counts as ended (commit.py)
    letters: float = 1.0  # weight of the decoder's choice of symbols, beside that of its stops
    deciding: float = 1.0  # weight of the decoder in the choice of what is committed (commit.py)
    ctc: float = 0.0  # weight of the CTC head's log-probability of the text; 0 for none
    unheard: float = 0.3  # probability of a symbol that the head has not heard yet
    phones: float = 0.0  # weight of the phone head's score of the words' pronunciation; 0 for none
    expected: float = 0.9  # nats for each letter of a phrase that the stream expects
    confidence: Confidence = UNCALIBRATED  # of symbols
    words: Language = NONE  # the language model

    @property
    def uses_language_model(self) -> bool:
        """Whether a language model scores the hypotheses."""
        return self.width > 1 and self.words.weight > 0


DEFAULT_BEAM = Beam()
GREEDY = Beam(width=1, max_wait=0, rival_wait=0)


def flush_steps(beam: Beam) -> int:
    """Return the steps of silence after the end of the input until all is committed."""
    return FLUSH_STEPS + beam.rival_wait


def beam_from_options(width: int | None, hold_ms: int | None, lm: str | None = None) -> Beam | None:
    """Return the search for a user's options --beam, --hold and --lm; None for the default.

    Raises:
        ValueError: no whole number of hypotheses from 1 to MAX_WIDTH, no whole number of
            milliseconds from 0 to MAX_WAIT_MS, or a time or a language model for the greedy scan,
            which uses neither.
    """
    if width == 1 and lm not in (None, "none"):
        raise ValueError(f"expected a beam of 2 or more hypotheses with --lm {lm}, got {width}")
    if width == 1 and hold_ms is not None:
        raise ValueError(f"expected a beam of 2 or more hypotheses with --hold {hold_ms}, got 1")
    if width is None and hold_ms is None:
        return None
    if width is not None and not (isinstance(width, Integral) and 1 <= width <= MAX_WIDTH):
        raise ValueError(f"expected a beam of 1 to {MAX_WIDTH} hypotheses, got {width!r}")
    if hold_ms is not None and not (isinstance(hold_ms, Integral) and 0 <= hold_ms <= MAX_WAIT_MS):
        raise ValueError(f"expected --hold in whole ms from 0 to {MAX_WAIT_MS}, got {hold_ms!r}")
    if width == 1:
        return GREEDY
    width = width or DEFAULT_BEAM.width
    wait = DEFAULT_BEAM.max_wait if hold_ms is None else round(hold_ms / 1000 / STEP_SECONDS)
    return DEFAULT_BEAM._replace(
        width=width,
        pruning=DEFAULT_BEAM.pruning if width <= DEFAULT_BEAM.width else WIDE_PRUNING,
        max_wait=wait,
        rival_wait=max(wait, DEFAULT_BEAM.rival_wait),
    )


def search_name(backend: str, beam: Beam) -> str:
    """Return a backend's name with that of its search: "fast-fp32", "fast-fp32-beam128-lm"."""
    if beam.width == 1:
        return backend
    return f"{backend}-beam{beam.width}" + ("-lm" if beam.uses_language_model else "")


def search_identity(name: str, beam: Beam) -> bytes:
    """Return bytes that identify a backend and its search settings, for snapshots."""
    if beam.width == 1:
        return name.encode()
    numbers = repr((*beam[:-1], *beam.words[:5])).encode()
    return b"".join([name.encode(), numbers, *buffers(beam.words[5:])])


def max_committed(beam: Beam, cap: int) -> int:
    """Return the most symbols that one step can commit, at most `cap` symbols a frame."""
    if beam.width == 1:
        return cap
    return cap * (beam.rival_wait + 1)  # of the hypothesis that becomes the best
