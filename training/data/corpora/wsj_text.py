"""Transcripts of the Wall Street Journal discs (.dot) as text of 49 symbols.

The published models write 49 symbols and do not list them. These are ours: 26 letters, the word
delimiter, 20 marks (every one that the corpus's own words begin with: `,COMMA`, `%PERCENT`), noise
and unknown. Each is one character, so that a model of characters can write it.

Source of the notation: dot_spec.doc on the discs.
"""

import re

DELIMITER, NOISE, UNKNOWN = " ", "~", "@"
MARKS = "!\"#$%&'()+,-./:;=?{}"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SYMBOLS = DELIMITER + MARKS + LETTERS + NOISE + UNKNOWN

_OVERLAPPING_NOISE = re.compile(r"\[<[\w-]+\]|\[[\w-]+>\]|\[[\w-]+/\]|\[/[\w-]+\]")
_NOISE = re.compile(r"\[[\w-]+\]")
# What is part of a word has a backslash before it.
_QUOTED_OR_NOTATION = re.compile(r"\\(.)|[!:*<>]")
_LINE = re.compile(r"(.*)\((\w+)\)\s*")
# As other recipes have it.
_AS_SPOKEN = {"%percent": "percent", ".point": "point", "--dash": "-dash"}


def transcripts(text: str) -> dict[str, str]:
    """Return the transcript of each utterance, by its id in lower case, of a .dot or .lsn file.

    Raises: ValueError for a line without the id in brackets at its end.
    """
    found = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"expected lines that end in '(01ic0201)', got {line.strip()[-60:]!r}")
        found[match[2].lower()] = match[1].strip()
    return found


def normalise(transcript: str) -> str:
    """Return a .dot transcript as words of the 49 symbols, in lower case.

    What goes: pauses (`.`), marks of a cut recording (`~`), noises that overlap words, backslashes,
    and the notation of words that were stressed (`!`), lengthened (`:`), mispronounced (`*word*`)
    or not in the prompt (`<word>`). A noise of its own becomes NOISE, a word that cannot be
    written or was not understood UNKNOWN.
    """
    words = (_word(word) for word in transcript.lower().split())
    return DELIMITER.join(word for word in words if word)


def _word(word: str) -> str:
    if _OVERLAPPING_NOISE.fullmatch(word):
        return ""
    if _NOISE.fullmatch(word):
        return NOISE
    word = _QUOTED_OR_NOTATION.sub(lambda match: match[1] or "", word)
    if word in ("", ".", "~"):
        return ""
    word = _AS_SPOKEN.get(word, word)
    can_be_written = set(word) <= set(MARKS + LETTERS) and set(word) & set(LETTERS)
    return word if can_be_written else UNKNOWN
