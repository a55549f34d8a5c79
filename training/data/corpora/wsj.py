"""The Wall Street Journal discs, WSJ0 (LDC93S6) and WSJ1 (LDC94S13), by their own indices.

An index (.ndx) lists recordings as `11_2_1:wsj0/si_tr_s/01i/01ic0201.wv1`. They are found by that
path's end wherever it lies, so discs may be given one by one or merged, in any case of letters.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cortado.training.data.corpora.source import (
    Corpus,
    Found,
    Problem,
    Published,
    corpus,
    read_text,
    walk,
)
from cortado.training.data.corpora.wsj_text import normalise, transcripts

EXCLUDED = "wsj0/si_tr_s/401/"  # listed for training, but left out of all published results
SI84 = "wsj0/doc/indices/train/tr_s_wv1.ndx"


class Set(NamedTuple):
    """The indices that make a set, all of non-verbalised punctuation but the training's."""

    indices: tuple[str, ...]
    published: Published


SETS = {
    "train_si284": Set((SI84, "wsj1/doc/indices/si_tr_s.ndx"), Published(37_416, 81.0)),
    "train_si84": Set((SI84,), Published(7_138, 15.0, 83)),
    "dev93": Set(("wsj1/doc/indices/h1_p0.ndx",), Published(503, 1.1, 10)),
    "dev93_5k": Set(("wsj1/doc/indices/h2_p0.ndx",), Published(513)),
    "eval92": Set(("wsj0/doc/indices/test/nvp/si_et_20.ndx",), Published(333, 0.7, 8)),
    "eval92_5k": Set(("wsj0/doc/indices/test/nvp/si_et_05.ndx",), Published(330)),
    "eval93": Set(("wsj1/doc/indices/wsj1/eval/h1_p0.ndx",), Published(213)),
    "eval93_5k": Set(("wsj1/doc/indices/wsj1/eval/h2_p0.ndx",), Published(215)),
}


class _Discs:
    """The files of all discs, by their names in lower case."""

    def __init__(self, discs: Sequence[Path]) -> None:
        self.transcripts: list[Path] = []
        self._files: dict[str, list[Path]] = {}
        for path in walk(discs):
            suffix = path.suffix.lower()
            if suffix in (".wv1", ".ndx"):
                self._files.setdefault(path.name.lower(), []).append(path)
            elif suffix in (".dot", ".lsn"):
                self.transcripts.append(path)

    def find(self, ending: str) -> list[Path]:
        """Return the files whose path ends in `ending`."""
        name = ending.rpartition("/")[2]
        return [
            path
            for path in self._files.get(name, [])
            if path.as_posix().lower().endswith("/" + ending)
        ]


def read(discs: Sequence[Path]) -> Corpus:
    """Return the usual training, development and test sets of the discs given.

    Raises: ValueError where no recording is listed by an index of WSJ's below `discs`.
    """
    problems: list[Problem] = []
    files = _Discs(discs)
    texts = _texts(files.transcripts, problems)
    sets = {}
    for name, one in SETS.items():
        missing = [index for index in one.indices if not files.find(index)]
        problems += [Problem(name, f"missing: the index {index}") for index in missing]
        if not missing:
            sets[name] = _utterances(one.indices, files, texts)
    expected = f"WSJ's indices ({SI84} or others) in the folders given"
    published = {name: SETS[name].published for name in sets}
    return corpus(sets, expected, problems, published, normalise)


def _utterances(
    indices: Sequence[str], files: _Discs, texts: Mapping[str, tuple[str, Path]]
) -> Iterator[Found | Problem]:
    for index in indices:
        path = files.find(index)[0]
        for line in read_text(path).splitlines():
            if not line.strip() or line.startswith(";"):
                continue
            disc, colon, listed = line.strip().lower().partition(":")
            if not colon or not disc.replace("_", "").isalnum():
                yield Problem(str(path), f"no line of an index: {line[:60]!r}")
                continue
            listed = listed.strip().lstrip("/").removesuffix(".wv1") + ".wv1"
            if not listed.startswith(EXCLUDED):
                yield from _utterance(listed, files, texts)


def _utterance(
    listed: str, files: _Discs, texts: Mapping[str, tuple[str, Path]]
) -> Iterator[Found | Problem]:
    """Yield the recording at a path in lower case, and what is wrong with it."""
    found = files.find(listed)
    if not found:
        yield Problem(listed, "missing: an index lists it, and no disc has it")
        return
    yield from (Problem(str(other), f"doubled: the same as {found[0]}") for other in found[1:])
    name, place = found[0].stem.lower(), listed.split("/")
    if name not in texts:
        yield Problem(str(found[0]), "missing: its transcript, in a .dot or .lsn file")
        return
    fields = {"recorded_as": place[1]} if len(place) > 2 else {}
    yield Found(name, found[0], name[:3], texts[name][0], fields=fields)


def _texts(paths: Sequence[Path], problems: list[Problem]) -> dict[str, tuple[str, Path]]:
    """Return the transcript of each id and its file: the detailed one (.dot) before the .lsn."""
    texts: dict[str, tuple[str, Path]] = {}
    for path in sorted(paths, key=lambda path: path.suffix.lower()):
        is_detailed = path.suffix.lower() == ".dot"
        try:
            found = transcripts(read_text(path))
        except (ValueError, OSError) as error:
            problems.append(Problem(str(path), str(error)))
            continue
        for name, text in found.items():
            if name not in texts:
                texts[name] = text, path
            elif is_detailed and texts[name][0] != text:
                what = f"doubled: {name} differs from {texts[name][1]}, which is kept"
                problems.append(Problem(str(path), what))
    return texts
