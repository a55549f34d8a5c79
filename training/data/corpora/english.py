"""Transcripts of any corpus as text of a-z, apostrophe and space."""

import re
import unicodedata

from cortado.model.vocabulary import ENGLISH

EVENTS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\}")  # <noise>, [laughter], {breath}
APOSTROPHES = dict.fromkeys(map(ord, "‘’ʼ`´′"), "'")

_QUOTED = re.compile(r"(?<!\w)‘(.*?)’(?!\w)")
_GAPS = dict.fromkeys(map(ord, "-‐‑‒–—―/_"), " ")
_BETWEEN = re.compile(r"(?<=\w)[.,:;!?…]+(?=\w)")  # words: "wait...what"
_SPOKEN = "&@%+=°"  # beside signs of currencies; how they were spoken is not known


def english(text: str) -> str:
    """Return text in lower case, without accents, punctuation and events; a hyphen parts words.

    What has no letter for it (a digit, another script, a sign that is spoken) stays, for the
    caller to see.
    """
    words = _BETWEEN.sub(" ", _QUOTED.sub(r"\1", EVENTS.sub(" ", text)))
    decomposed = unicodedata.normalize("NFKD", words.translate(APOSTROPHES | _GAPS)).lower()
    letters = "".join(one for one in decomposed if _is_kept(one))
    return " ".join(word for word in letters.split() if set(word) != {"'"})


def _is_kept(character: str) -> bool:
    if character in ENGLISH or character in _SPOKEN or character in "\t\n":
        return True
    category = unicodedata.category(character)
    return category == "Sc" or category[0] not in "MPSC"


def unwritable(text: str) -> list[str]:
    """Return the characters of a text that the recogniser does not write, in order."""
    return sorted(set(text) - set(ENGLISH))
