"""The folding of TIMIT's phones against the published table."""

from cortado.training.data.phones import PHONES_39, PHONES_61, fold

# Lee & Hon 1989, table 2, as sentences: phones of 61 that are one phone of 39.
MERGED = [
    {"aa", "ao"}, {"ah", "ax", "ax-h"}, {"er", "axr"}, {"hh", "hv"}, {"ih", "ix"}, {"l", "el"},
    {"m", "em"}, {"n", "en", "nx"}, {"ng", "eng"}, {"sh", "zh"}, {"uw", "ux"},
    {"pcl", "tcl", "kcl", "bcl", "dcl", "gcl", "h#", "pau", "epi"},
]  # fmt: skip
ALONE = "ae aw ay b ch d dh dx eh ey f g iy jh k ow oy p r s t th uh v w y z".split()  # noqa: SIM905


def test_there_are_61_and_39_phones() -> None:
    assert len(PHONES_61) == len(set(PHONES_61)) == 61
    assert len(PHONES_39) == len(set(PHONES_39)) == 39


def test_the_39_are_those_of_the_published_table() -> None:
    classes: dict[str, set[str]] = {}
    for phone in PHONES_61:
        for folded in fold([phone]):
            classes.setdefault(folded, set()).add(phone)
    expected = [*MERGED, *({phone} for phone in ALONE)]
    assert sorted(map(sorted, classes.values())) == sorted(map(sorted, expected))
    assert classes["sil"] == MERGED[-1]
    assert all(name in phones for name, phones in classes.items() if name != "sil")


def test_the_glottal_stop_is_removed_and_neighbours_stay_two() -> None:
    assert fold(["h#", "q", "pau", "ix", "ih", "q"]) == ["sil", "sil", "ih", "ih"]


def test_what_is_no_phone_of_timit_stays() -> None:
    assert fold(["xx", "q", "sil"]) == ["xx", "sil"]
