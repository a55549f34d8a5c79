"""Miniature corpora in the exact layouts of their discs, with tones for speech."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soundfile

from cortado.tests.model.audio.sphere_files import write_sphere

Rename = Callable[[str], str]  # of folders and files: str.upper, str.lower

SENTENCE = [("h#", 0, 800), ("sh", 800, 1600), ("iy", 1600, 2400), ("q", 2400, 2800)]
SENTENCE += [("h#", 2800, 3200)]
WORDS = [("she", 800, 2400)]


def tone(samples: int = 3200) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.round(3000 * np.sin(np.arange(samples) / 9)).astype(np.int64)


def write_timit(
    root: Path,
    speakers: Sequence[tuple[str, str, str]],  # side, dialect, speaker
    sentences: Sequence[str] = ("sa1", "sx127", "si943"),
    rename: Rename = str.upper,
    riff: bool = False,
) -> Path:
    """Write TIMIT with `sentences` of each speaker; `rename` gives the names their case."""
    for side, dialect, speaker in speakers:
        folder = root / rename("timit") / rename(side) / rename(dialect) / rename(speaker)
        folder.mkdir(parents=True, exist_ok=True)
        for sentence in sentences:
            if riff:
                soundfile.write(folder / rename(f"{sentence}.wav"), tone().astype(np.int16), 16000)
            else:
                write_sphere(folder / rename(f"{sentence}.wav"), tone())
            for suffix, rows in (("phn", SENTENCE), ("wrd", WORDS)):
                text = "".join(f"{start} {end} {label}\n" for label, start, end in rows)
                (folder / rename(f"{sentence}.{suffix}")).write_text(text)
            (folder / rename(f"{sentence}.txt")).write_text("0 3200 She.\n")
    return root


def write_index(path: Path, disc: str, listed: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f";; File: {path.name}, updated 04/26/94\n;;\n;; Index of a miniature corpus\n;;\n"
    path.write_text(head + "".join(f"{disc}:{one}\n" for one in listed))


def write_wsj(root: Path, merged: bool = False, rename: Rename = str) -> list[Path]:
    """Write WSJ0 and WSJ1 in little; return the folders to give: discs, or one that holds all.

    `rename` gives the names of recordings and transcripts their case, not those of the indices'
    contents: so it is on some copies.
    """

    def disc(name: str) -> Path:
        return root if merged else root / name

    def recording(disc_name: str, place: str) -> None:
        folder, _, name = place.rpartition("/")
        write_sphere(disc(disc_name) / rename(folder) / rename(name), tone(), shorten=True)

    def dots(disc_name: str, place: str, lines: Sequence[str]) -> None:
        folder, _, name = place.rpartition("/")
        path = disc(disc_name) / rename(folder) / rename(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    train = [f"wsj0/si_tr_s/{id[:3]}/{id}.wv1" for id in ("01ic0201", "01ic0202", "401c0201")]
    for place in train:
        recording("11-1.1" if "401" not in place else "11-2.1", place)
    dots(
        "11-10.1",
        "wsj0/transcrp/dots/si_tr_s/01i/01ic0200.dot",
        [
            'The sale \\,COMMA was \\"DOUBLE\\-QUOTE cut [loud_breath] (01ic0201)',
            "Mr\\. Smith isn\\'t <the> [<door_slam] *winner* \\-\\-DASH yet . ~ (01ic0202)",
        ],
    )
    dots("11-10.1", "wsj0/transcrp/dots/si_tr_s/401/401c0200.dot", ["No one (401c0201)"])
    write_index(disc("11-13.1") / "wsj0/doc/indices/train/tr_s_wv1.ndx", "11_1_1", train)
    recording("13-1.1", "wsj1/si_tr_s/46a/46ac0201.wv1")
    dots("13-34.1", "wsj1/trans/wsj1/si_tr_s/46a/46ac0200.dot", ["A share (46ac0201)"])
    write_index(
        disc("13-34.1") / "wsj1/doc/indices/si_tr_s.ndx", "13_1_1",
        [" wsj1/si_tr_s/46a/46ac0201.wv1"],
    )  # fmt: skip
    recording("11-14.1", "wsj0/si_et_20/440/440c0401.wv1")
    dots("11-14.1", "wsj0/si_et_20/440/440c0400.dot", ["\\%PERCENT \\.POINT (440c0401)"])
    write_index(
        disc("11-13.1") / "wsj0/doc/indices/test/nvp/si_et_20.ndx", "11_14_1",
        ["wsj0/si_et_20/440/440c0401", "wsj0/si_et_20/440/440c0402"],
    )  # fmt: skip
    recording("13-16.1", "wsj1/si_dt_20/4k0/4k0c0301.wv1")
    dots("13-16.1", "wsj1/si_dt_20/4k0/4k0c0300.lsn", ["ONLY THE PROMPT (4K0C0301)"])
    write_index(
        disc("13-34.1") / "wsj1/doc/indices/h1_p0.ndx", "13_16_1",
        ["wsj1/si_dt_20/4k0/4k0c0301.wv1"],
    )  # fmt: skip
    return [root] if merged else sorted(path for path in root.iterdir() if path.is_dir())
