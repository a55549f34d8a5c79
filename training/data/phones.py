"""TIMIT's 61 phones, and how they are folded to 48 for training and to 39 for scoring.

Source: Lee & Hon 1989, "Speaker-independent phone recognition using hidden Markov models", table 2.
"""

from collections.abc import Iterable

GLOTTAL_STOP = "q"  # neither trained nor scored after folding
SILENCE = "sil"

# Each line: the phone scored (of 39), the phone trained (of 48), the phones transcribed (of 61).
_TABLE = """
aa aa: aa
aa ao: ao
ae ae: ae
ah ah: ah
ah ax: ax ax-h
aw aw: aw
ay ay: ay
b b: b
ch ch: ch
d d: d
dh dh: dh
dx dx: dx
eh eh: eh
er er: er axr
ey ey: ey
f f: f
g g: g
hh hh: hh hv
ih ih: ih
ih ix: ix
iy iy: iy
jh jh: jh
k k: k
l l: l
l el: el
m m: m em
n n: n nx
n en: en
ng ng: ng eng
ow ow: ow
oy oy: oy
p p: p
r r: r
s s: s
sh sh: sh
sh zh: zh
sil cl: pcl tcl kcl
sil vcl: bcl dcl gcl
sil epi: epi
sil sil: h# pau
t t: t
th th: th
uh uh: uh
uw uw: uw ux
v v: v
w w: w
y y: y
z z: z
"""


def _foldings() -> dict[str, tuple[str, str]]:
    foldings: dict[str, tuple[str, str]] = {}
    for line in _TABLE.strip().splitlines():
        targets, _, phones = line.partition(":")
        scored, trained = targets.split()
        foldings |= dict.fromkeys(phones.split(), (trained, scored))
    return foldings


_FOLDINGS = _foldings()
PHONES_61 = (*sorted([*_FOLDINGS, GLOTTAL_STOP]),)
PHONES_48 = (*sorted({trained for trained, _ in _FOLDINGS.values()}),)
PHONES_39 = (*sorted({scored for _, scored in _FOLDINGS.values()}),)


def fold(phones: Iterable[str], to: int = 39) -> list[str]:
    """Return phones of TIMIT's 61 as those of 48 or 39, without the glottal stop.

    Equal neighbours stay two: a closure and the pause before it are scored one by one, as in
    published results.

    Raises: ValueError for another phone, or another number.
    """
    if to not in (48, 39):
        raise ValueError(f"expected a folding to 48 or 39 phones, got {to}")
    folded = []
    for phone in phones:
        if phone == GLOTTAL_STOP:
            continue
        if phone not in _FOLDINGS:
            raise ValueError(f"expected one of TIMIT's 61 phones, got {phone!r}")
        folded.append(_FOLDINGS[phone][to == 39])
    return folded
