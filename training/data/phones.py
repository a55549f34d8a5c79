"""TIMIT's 61 phones, and how they are folded to 39 for scoring.

Source: Lee & Hon 1989, "Speaker-independent phone recognition using hidden Markov models", table 2.
"""

from collections.abc import Iterable

GLOTTAL_STOP = "q"  # left out by folding
PHONES_39 = (
    *"aa ae ah aw ay b ch d dh dx eh er ey f g hh ih iy jh k".split(),  # noqa: SIM905
    *"l m n ng ow oy p r s sh sil t th uh uw v w y z".split(),  # noqa: SIM905
)
_ALIKE = {
    "aa": "ao",
    "ah": "ax ax-h",
    "er": "axr",
    "hh": "hv",
    "ih": "ix",
    "l": "el",
    "m": "em",
    "n": "nx en",
    "ng": "eng",
    "sh": "zh",
    "sil": "pcl tcl kcl bcl dcl gcl epi h# pau",
    "uw": "ux",
}
_FOLDED = {phone: phone for phone in PHONES_39 if phone != "sil"}
_FOLDED |= {phone: scored for scored, phones in _ALIKE.items() for phone in phones.split()}
PHONES_61 = (*sorted([*_FOLDED, GLOTTAL_STOP]),)


def fold(phones: Iterable[str]) -> list[str]:
    """Return phones of TIMIT's 61 as those of 39, without the glottal stop; other symbols stay.

    Equal neighbours stay two: a closure and the pause before it are scored one by one, as in
    published results.
    """
    return [_FOLDED.get(phone, phone) for phone in phones if phone != GLOTTAL_STOP]
