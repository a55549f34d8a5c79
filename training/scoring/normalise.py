"""Text normalisation, applied to reference and hypothesis alike before they are compared."""

import re
import warnings
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from cortado.training.data.corpora.english import APOSTROPHES, EVENTS

Name = Literal["none", "corpus", "whisper"]
NAMES: tuple[Name, ...] = get_args(Name)

OTHER = re.compile(r"[^\w\s']|_")  # neither letters, digits, apostrophes nor space
LONELY = re.compile(r"(?<!\w)'+|'+(?!\w)")  # apostrophes that are quotation marks


class Normaliser(NamedTuple):
    """A way to compare texts, with its name and what it does in words."""

    name: Name
    description: str
    apply: Callable[[str], str]


def normaliser(name: str) -> Normaliser:
    """Return the normaliser of a name.

    Raises: ValueError for a name that is not known, or where whisper-normalizer is not installed.
    """
    if name == "none":
        return Normaliser("none", "none: texts in lower case, else as they are", str.lower)
    if name == "corpus":
        return Normaliser(
            "corpus",
            "corpus: lower case; events in <>, [] or {} and punctuation but apostrophes left out",
            _corpus,
        )
    if name == "whisper":
        return Normaliser(
            "whisper", "whisper: whisper-normalizer's EnglishTextNormalizer", _whisper()
        )
    raise ValueError(f"expected a normalisation among {', '.join(NAMES)}, got {name!r}")


def _corpus(text: str) -> str:
    """Return the words of a transcript by the usual rules of its corpus, in lower case."""
    spoken = EVENTS.sub(" ", text.lower().translate(APOSTROPHES))
    return " ".join(LONELY.sub(" ", OTHER.sub(" ", spoken)).split())


def _whisper() -> Callable[[str], str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its source has escapes that Python warns of
            from whisper_normalizer.english import EnglishTextNormalizer
    except ImportError as error:
        raise ValueError(
            "expected whisper-normalizer for this normalisation, got none: "
            "it is of the extra cortado-asr[whisper]; in a clone: make install EXTRAS=whisper"
        ) from error
    normalise = EnglishTextNormalizer()
    return lambda text: str(normalise(text)).strip()
