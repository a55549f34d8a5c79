"""TIMIT (LDC93S1): 61 phones and words with their times, the standard sets by speaker.

Source: the disc's testset.doc (Garofolo et al. 1993): the core test set has two men and a woman of
each dialect. The development speakers are those of Halberstadt 1998, as in Kaldi's recipe.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cortado.training.data.corpora.source import (
    Corpus,
    Found,
    Problem,
    Published,
    corpus,
    read_text,
    walk,
)
from cortado.training.data.manifest import Segment
from cortado.training.data.phones import PHONES_61

RATE = 16_000  # of the times in its files
_CORE_TEST = """
    mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0
    mbpm0 mklt0 fnlp0 mcmj0 mjdh0 fmgd0 mgrt0 mnjm0 fdhc0 mjln0 mpam0 fmld0
"""
_DEV = """
    faks0 fdac1 fjem0 mgwt0 mjar0 mmdb1 mmdm2 mpdf0 fcmh0 fkms0 mbdg0 mbwm0 mcsh0 fadg0 fdms0 fedw0
    mgjf0 mglb0 mrtk0 mtaa0 mtdt0 mthc0 mwjg0 fnmr0 frew0 fsem0 mbns0 mmjr0 mdls0 mdlf0 mdvc0 mers0
    fmah0 fdrw0 mrcs0 mrjm4 fcal1 mmwh0 fjsj0 majc0 mjsw0 mreb0 fgjd0 fjmg0 mroa0 mteb0 mjfc0 mrjr0
    fmml0 mrws1
"""
CORE_TEST_SPEAKERS, DEV_SPEAKERS = frozenset(_CORE_TEST.split()), frozenset(_DEV.split())
PUBLISHED = {
    "train": Published(3696, 3.14, 462),
    "dev": Published(400, 0.34, 50),
    "test": Published(192, 0.16, 24),
}
PLACE = re.compile(r"(train|test)/dr([1-8])/([fm][a-z]{3}\d)/(s[aix]\d+)\.wav(\.wav)?")


def read(discs: Sequence[Path]) -> Corpus:
    """Return TIMIT's train (without the SA sentences), dev and core test sets.

    Raises: ValueError where there is no TIMIT below `discs`.
    """
    sets: dict[str, list[Found | Problem]] = {name: [] for name in PUBLISHED}
    files = list(walk(discs))
    by_lower_name = {str(path).lower(): path for path in files}
    for path in files:
        match = PLACE.fullmatch("/".join(path.parts[-4:]).lower())
        if match is None or match[4].startswith("sa"):
            continue
        if match[5] and str(path).lower().removesuffix(".wav") in by_lower_name:
            continue  # a copy of SA1.WAV as SA1.WAV.wav
        name = _set_of(match[1], match[3])
        if name is not None:
            sets[name].append(_utterance(path, match, by_lower_name))
    expected = "TIMIT's train/dr1/fcjf0/si1027.wav and others in the folders given"
    return corpus(sets, expected, _missing_speakers(sets), PUBLISHED)


def _set_of(side: str, speaker: str) -> str | None:
    if side == "train":
        return "train"
    if speaker in CORE_TEST_SPEAKERS:
        return "test"
    return "dev" if speaker in DEV_SPEAKERS else None


def _utterance(path: Path, match: re.Match[str], files: Mapping[str, Path]) -> Found | Problem:
    """Return the utterance of a recording, or what is wrong with its transcripts."""
    stem = str(path)[: -len(".wav.wav" if match[5] else ".wav")].lower()
    segments = {}
    for suffix in (".phn", ".wrd"):
        if stem + suffix not in files:
            return Problem(str(path), f"missing: its {suffix.upper()[1:]} transcript")
        transcript = files[stem + suffix]
        try:
            segments[suffix] = _segments(transcript)
            if not segments[suffix]:
                raise ValueError("expected labels with their times, got none")
            if suffix == ".phn":
                _check_phones(segments[suffix])
        except (ValueError, OSError) as error:
            return Problem(str(transcript), str(error))
    speaker = match[3]
    return Found(
        id=f"{speaker}_{match[4]}",
        audio=path,
        speaker=speaker,
        text=" ".join(word.label for word in segments[".wrd"]),
        words=segments[".wrd"],
        phones=segments[".phn"],
        fields={"dialect": f"dr{match[2]}", "sex": speaker[0]},
    )


def _segments(path: Path) -> tuple[Segment, ...]:
    """Return the lines `first_sample end_sample label` of a transcript."""
    segments = []
    for line in read_text(path).split("\n"):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
            raise ValueError(f"expected lines like '0 9640 h#', got {line.strip()[:60]!r}")
        start, end = int(parts[0]), int(parts[1])
        if start > end:
            raise ValueError(f"expected starts before ends, got {line.strip()[:60]!r}")
        segments.append(Segment(parts[2].lower(), start / RATE, end / RATE))
    return tuple(segments)


def _check_phones(phones: Sequence[Segment]) -> None:
    unknown = sorted({phone.label for phone in phones} - set(PHONES_61))
    if unknown:
        raise ValueError(f"expected TIMIT's 61 phones, got {', '.join(unknown)}")


def _missing_speakers(sets: Mapping[str, Sequence[Found | Problem]]) -> Iterator[Problem]:
    for name, speakers in (("dev", DEV_SPEAKERS), ("test", CORE_TEST_SPEAKERS)):
        there = {one.speaker for one in sets[name] if isinstance(one, Found)}
        for speaker in sorted(speakers - there):
            yield Problem(f"{name}: speaker {speaker}", "missing: all utterances")
