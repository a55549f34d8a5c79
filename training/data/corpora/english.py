"""Transcripts of any corpus as text of a-z, apostrophe and space."""

import unicodedata

from cortado.model.vocabulary import ENGLISH

_APOSTROPHES = dict.fromkeys(map(ord, "‘’ʼ`´′"), "'")
_GAPS = dict.fromkeys(map(ord, "-‐‑‒–—―/_"), " ")


def english(text: str) -> str:
    """Return text in lower case, without accents and punctuation; a hyphen parts words.

    What has no letter for it (a digit, another script) stays, for the caller to see.
    """
    decomposed = unicodedata.normalize("NFKD", text.translate(_APOSTROPHES | _GAPS)).lower()
    letters = [
        character
        for character in decomposed
        if character in ENGLISH or unicodedata.category(character)[0] not in "MPSC"
        or character in "\t\n"
    ]  # fmt: skip
    words = (word.strip("'") if set(word) == {"'"} else word for word in "".join(letters).split())
    return " ".join(word for word in words if word)


def unwritable(text: str) -> list[str]:
    """Return the characters of a text that the recogniser does not write, in order."""
    return sorted(set(text) - set(ENGLISH))
