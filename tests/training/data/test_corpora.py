"""Readers of corpora on miniatures in the discs' own layouts."""

import contextlib
import gzip
import json
import os
import shutil
import string
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.tests.model.audio.sphere_files import write_sphere
from cortado.tests.training.data.discs import (
    SENTENCE,
    Rename,
    tone,
    write_index,
    write_timit,
    write_wsj,
)
from cortado.tests.training.recorded import write_rows
from cortado.training.data.corpora import commonvoice, folder, jsonlines, kaldi, libri, timit, wsj
from cortado.training.data.corpora.english import english
from cortado.training.data.corpora.source import Corpus, Found
from cortado.training.data.corpora.wsj_text import SYMBOLS, normalise, transcripts

SPEAKERS = [("train", "dr1", "fcjf0"), ("train", "dr8", "mtcs0"), ("test", "dr1", "mdab0"),
            ("test", "dr1", "faks0"), ("test", "dr2", "mabw0")]  # fmt: skip


def parts(corpus: Corpus) -> dict[str, list[str]]:
    return {part.name: [one.id for one in part.utterances] for part in corpus.parts}


def problems(corpus: Corpus, kind: str = "") -> list[str]:
    return [f"{one.where}: {one.what}" for one in corpus.problems if one.what.startswith(kind)]


def one(corpus: Corpus, id: str) -> Found:
    return next(each for part in corpus.parts for each in part.utterances if each.id == id)


def wav(path: Path, seconds: float = 0.2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone(round(seconds * 16000)).astype(np.int16), 16000)
    return path


@pytest.mark.parametrize("rename", [str.upper, str.lower])
@pytest.mark.parametrize("riff", [False, True])
def test_timit_is_split_by_speaker_without_its_sa_sentences(
    tmp_path: Path, rename: Rename, riff: bool
) -> None:
    corpus = timit.read([write_timit(tmp_path, SPEAKERS, rename=rename, riff=riff)])
    assert parts(corpus) == {
        "train": ["fcjf0_si943", "fcjf0_sx127", "mtcs0_si943", "mtcs0_sx127"],
        "dev": ["faks0_si943", "faks0_sx127"],
        "test": ["mdab0_si943", "mdab0_sx127"],
    }
    found = one(corpus, "mdab0_sx127")
    assert [phone.label for phone in found.phones] == [label for label, _, _ in SENTENCE]
    assert found.words == (("she", 0.05, 0.15),)
    assert (found.text, found.speaker) == ("she", "mdab0")
    assert found.fields == {"dialect": "dr1", "sex": "m"}
    assert Counter(one.where.split(":")[0] for one in corpus.problems) == {"dev": 49, "test": 23}
    assert "test: speaker fdhc0: missing: all utterances" in problems(corpus)


def test_timit_sets_have_the_published_sizes(tmp_path: Path) -> None:
    assert len(timit.CORE_TEST_SPEAKERS) * 8 == timit.PUBLISHED["test"].utterances == 192
    assert len(timit.DEV_SPEAKERS) * 8 == timit.PUBLISHED["dev"].utterances == 400
    assert timit.PUBLISHED["train"].utterances == 462 * 8 == 3696
    assert not timit.CORE_TEST_SPEAKERS & timit.DEV_SPEAKERS
    assert Counter(name[0] for name in timit.CORE_TEST_SPEAKERS) == {"m": 16, "f": 8}


def test_a_whole_timit_gives_the_published_counts(tmp_path: Path) -> None:
    """630 speakers of ten sentences each, as many as on the disc; all are links to one."""
    base = write_timit(tmp_path / "base", SPEAKERS[:1], ["sa1"]) / "TIMIT/TRAIN/DR1/FCJF0"
    letters = string.ascii_lowercase
    invented = [f"m{a}{b}x{digit}" for a in letters for b in letters for digit in "01"]
    known = sorted(timit.CORE_TEST_SPEAKERS | timit.DEV_SPEAKERS)
    names = ["sa1", "sa2", *(f"sx{k}" for k in range(5)), *(f"si{k}" for k in range(700, 703))]
    for number, speaker in enumerate([*known, *invented[: 630 - len(known)]]):
        side = "TEST" if number < 168 else "TRAIN"
        folder = tmp_path / "whole/TIMIT" / side / f"DR{number % 8 + 1}" / speaker.upper()
        folder.mkdir(parents=True)
        for name in names:
            for suffix in ("WAV", "PHN", "WRD"):
                os.link(base / f"SA1.{suffix}", folder / f"{name.upper()}.{suffix}")
    corpus = timit.read([tmp_path / "whole"])
    assert problems(corpus) == []
    for part in corpus.parts:
        assert part.published is not None
        assert len(part.utterances) == part.published.utterances
        assert len({each.speaker for each in part.utterances}) == part.published.speakers


def test_timit_names_what_is_missing_doubled_or_broken(tmp_path: Path) -> None:
    root = write_timit(tmp_path / "disc", SPEAKERS)
    speaker = root / "TIMIT/TRAIN/DR1/FCJF0"
    (speaker / "SX127.PHN").unlink()
    (speaker / "SI943.PHN").write_text("0 800 h#\n800 1600 zz\n")
    copy = tmp_path / "copy"
    shutil.copytree(root / "TIMIT/TEST", copy / "test")
    corpus = timit.read([root, copy])
    assert parts(corpus)["train"] == ["mtcs0_si943", "mtcs0_sx127"]
    assert f"{speaker / 'SX127.WAV'}: missing: its PHN transcript" in problems(corpus)
    assert f"{speaker / 'SI943.PHN'}: expected TIMIT's 61 phones, got zz" in problems(corpus)
    assert len(problems(corpus, "doubled: ")) == 4


def test_timit_with_riff_copies_beside_its_sphere_files_is_not_doubled(tmp_path: Path) -> None:
    root = write_timit(tmp_path, SPEAKERS[:1])
    for path in list(root.rglob("*.WAV")):
        wav(path.with_name(f"{path.name}.wav"))
    corpus = timit.read([root])
    assert problems(corpus, "doubled") == []
    assert all(found.audio.name.endswith(".WAV") for found in corpus.parts[0].utterances)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("rename", [str, str.upper])
def test_wsj_sets_are_what_the_indices_list(tmp_path: Path, merged: bool, rename: Rename) -> None:
    corpus = wsj.read(write_wsj(tmp_path, merged, rename))
    assert parts(corpus) == {
        "train_si284": ["01ic0201", "01ic0202", "46ac0201"],
        "train_si84": ["01ic0201", "01ic0202"],
        "dev93": ["4k0c0301"],
        "eval92": ["440c0401"],
    }
    assert problems(corpus) == [
        "dev93_5k: missing: the index wsj1/doc/indices/h2_p0.ndx",
        "eval92_5k: missing: the index wsj0/doc/indices/test/nvp/si_et_05.ndx",
        "eval93: missing: the index wsj1/doc/indices/wsj1/eval/h1_p0.ndx",
        "eval93_5k: missing: the index wsj1/doc/indices/wsj1/eval/h2_p0.ndx",
        "wsj0/si_et_20/440/440c0402.wv1: missing: an index lists it, and no disc has it",
    ]
    texts = {
        found.id: corpus.normalise(found.text) for part in corpus.parts for found in part.utterances
    }
    assert texts == {
        "01ic0201": 'the sale ,comma was "double-quote cut ~',
        "01ic0202": "mr. smith isn't the winner -dash yet",
        "46ac0201": "a share",
        "440c0401": "percent point",
        "4k0c0301": "only the prompt",
    }
    assert (one(corpus, "46ac0201").speaker, one(corpus, "46ac0201").fields) == (
        "46a", {"recorded_as": "si_tr_s"},
    )  # fmt: skip


def test_wsj_names_recordings_that_lie_twice_and_those_without_text(tmp_path: Path) -> None:
    discs = write_wsj(tmp_path / "discs")
    shutil.copytree(tmp_path / "discs/13-16.1", tmp_path / "discs/again")
    (tmp_path / "discs/11-14.1/wsj0/si_et_20/440/440c0400.dot").unlink()
    corpus = wsj.read([*discs, tmp_path / "discs/again"])
    assert len(problems(corpus, "doubled: the same as")) == 1
    assert len(problems(corpus, "missing: its transcript")) == 1
    assert "eval92" in parts(corpus)


@pytest.mark.parametrize(
    ("transcript", "text"),
    [
        ("Of course there isn\\'t [misc_noise]", "of course there isn't ~"),
        ("[loud_breath] I\\. B\\. M\\. today [door_slam>] ahead", "~ i. b. m. today ahead"),
        ("a [phone_ring/] b c [/phone_ring] d [<tick] e", "a b c d e"),
        ("<and> . !so re:ally *wrong* ~", "and so really wrong"),
        ("\\-\\-DASH \\{LEFT\\-BRACE \\&AMPERSAND", "-dash {left-brace &ampersand"),
        ("fif- fifty caf\xe9 (( ))", "fif- fifty @ @ @"),
    ],
)  # fmt: skip
def test_wsj_transcripts_become_49_symbols(transcript: str, text: str) -> None:
    assert normalise(transcript) == text
    assert set(text) <= set(SYMBOLS)


def test_the_49_symbols_are_49() -> None:
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 49


def test_lines_of_transcripts_need_their_id() -> None:
    assert transcripts("A b (01IC0201)\n\n") == {"01ic0201": "A b"}
    with pytest.raises(ValueError, match=r"expected lines that end in '\(01ic0201\)', got 'A b'"):
        transcripts("A b\n")


def test_librispeech(tmp_path: Path) -> None:
    chapter = tmp_path / "LibriSpeech/dev-clean/84/121123"
    for name in ("84-121123-0000", "84-121123-0001", "84-121123-0003"):
        wav(chapter / f"{name}.flac")
    (chapter / "84-121123.trans.txt").write_text(
        "84-121123-0000 GO DO YOU HEAR\n84-121123-0001 BUT IN LESS\n84-121123-0002 AT THIS\n"
    )
    corpus = libri.read_librispeech([tmp_path])
    assert parts(corpus) == {"dev-clean": ["84-121123-0000", "84-121123-0001"]}
    assert one(corpus, "84-121123-0000").text == "GO DO YOU HEAR"
    assert one(corpus, "84-121123-0000").speaker == "84"
    assert len(problems(corpus, "missing: its audio")) == 1
    assert len(problems(corpus, "missing: its line in a .trans.txt")) == 1
    assert corpus.parts[0].published == libri.LIBRISPEECH["dev-clean"]


def test_libritts(tmp_path: Path) -> None:
    chapter = tmp_path / "train-mine/19/198"
    for number in (0, 1):
        wav(chapter / f"19_198_000000_00000{number}.wav")
    (chapter / "19_198_000000_000000.original.txt").write_text("Dr. Who said, 'no'.\n")
    (chapter / "19_198_000000_000000.normalized.txt").write_text("Doctor Who said, 'no'.\n")
    corpus = libri.read_libritts([tmp_path])
    assert one(corpus, "19_198_000000_000000").text == "Doctor Who said, 'no'."
    assert len(problems(corpus, "missing: its .normalized.txt")) == 1
    assert corpus.parts[0].published is None


def test_common_voice(tmp_path: Path) -> None:
    wav(tmp_path / "en/clips/common_voice_en_1.mp3".replace(".mp3", ".wav"))
    rows = [
        "client_id\tpath\tsentence\tup_votes\tage\tgender",
        'abc\tcommon_voice_en_1.wav\t"Twenty-one, she said.\t2\ttwenties\t',
        "abc\tcommon_voice_en_2.mp3\tGone.\t2\t\t",
        "abc",
    ]
    (tmp_path / "en/test.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name in ("invalidated", "validated_sentences", "unvalidated_sentences"):
        (tmp_path / f"en/{name}.tsv").write_text("sentence_id\n")
    corpus = commonvoice.read([tmp_path])
    assert parts(corpus) == {"test": ["common_voice_en_1"]}
    found = one(corpus, "common_voice_en_1")
    assert found.fields == {"age": "twenties", "up_votes": "2"}
    assert english(found.text) == "twenty one she said"
    assert len(corpus.problems) == 2


def test_kaldi_directories_with_and_without_segments(tmp_path: Path) -> None:
    audio = wav(tmp_path / "a b.wav", 2.0)
    plain, cut = tmp_path / "data/dev", tmp_path / "data/eval"
    for data in (plain, cut):
        data.mkdir(parents=True)
        (data / "utt2spk").write_text("u1 s1\nu2\ts2\n")
        (data / "text").write_text("u1 hello there\nu2\tyes\n")
    (plain / "wav.scp").write_text(
        f"u1 sph2pipe -f wav '{audio}' |\nu2 curl http://x | sox - -t wav - |\nu4 {audio}\n"
    )
    (cut / "wav.scp").write_text(f"r1 {audio}\n")
    (cut / "segments").write_text("u1 r1 0.5 1.25\nu2 r2 0 1\nu3 r1 1 2\n")
    corpus = kaldi.read([tmp_path / "data"])
    assert parts(corpus) == {"dev": ["u1"], "eval": ["u1"]}
    by_name = {part.name: part.utterances[0] for part in corpus.parts}
    assert (by_name["dev"].audio, by_name["dev"].start) == (audio, None)
    assert (by_name["eval"].start, by_name["eval"].duration) == (0.5, 0.75)
    assert by_name["eval"].speaker == "s1"
    assert any("expected a file, or sph2pipe or flac with one" in one for one in problems(corpus))
    assert any("missing: recording r2 in wav.scp" in one for one in problems(corpus))
    assert f"{plain / 'text'}: u4: missing: its text" in problems(corpus)
    assert f"{cut / 'text'}: u3: missing: its text" in problems(corpus)


def test_nemo_and_our_own_manifests(tmp_path: Path) -> None:
    nemo = {"audio_filepath": "x/a.wav", "duration": 1.5, "text": "Hi", "offset": 0.5, "lang": "en"}
    ours = {"id": "b", "audio": "b.wav", "duration": 1, "speaker": "s", "text": "yo",
            "words": [["yo", 0.1, 0.4]]}  # fmt: skip
    path = tmp_path / "train.json"
    path.write_text(f"{json.dumps(nemo)}\n{json.dumps(ours)}\nnonsense\n{{}}\n")
    for corpus in (jsonlines.read_manifests([path]), jsonlines.read_manifests([tmp_path])):
        assert parts(corpus) == {"train": ["b", "x/a-0.500"]}
        first = one(corpus, "x/a-0.500")
        assert (first.start, first.duration, first.fields) == (0.5, 1.5, {"lang": "en"})
        assert first.audio == tmp_path / "x/a.wav"
        assert one(corpus, "b").words == (("yo", 0.1, 0.4),)
        assert "line 3: expected a JSON object, got 'nonsense'" in problems(corpus)[0]
        assert "line 4: expected 'audio', got none" in problems(corpus)[1]


def test_transcripts_of_whose_words_the_recogniser_was_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heard(file: str, *utterances: tuple[str, float, float, float]) -> dict[str, Any]:
        words = [{"text": text, "start": start + 0.1, "end": end, "confidence": sure}
                 for text, start, end, sure in utterances]  # fmt: skip
        said = [{"text": text, "start": start, "end": end} for text, start, end, _ in utterances]
        return {"file": file, "text": "", "duration": 9.0, "words": words, "utterances": said}

    rows = [
        heard("x/whole.mp3", ("so", 1.0, 9.2, 0.7)),
        heard("doubted.mp3", ("hm", 1.0, 2.0, 0.69)),
        heard("long.mp3", ("one", 0.5, 2.0, 0.9), ("tow", 3.0, 4.0, 0.1), ("three", 5.0, 8.0, 0.8)),
        heard("silent.mp3"),
        {"file": "manifest.mp3", "duration": 1.0, "text": "so"},
    ]
    path = write_rows(tmp_path / "own.json", rows)
    corpus = jsonlines.read_transcripts([path])
    assert parts(corpus) == {"own": ["long-0.000", "long-4.500", "x/whole"]}
    whole, later = one(corpus, "x/whole"), one(corpus, "long-4.500")
    assert (whole.text, whole.audio, whole.start) == ("so", tmp_path / "x/whole.mp3", None)
    assert (later.text, later.start, later.duration) == ("three", 4.5, 4.5)
    assert one(corpus, "long-0.000").duration == 2.5
    assert problems(corpus) == [f"{path}, line 5: expected 'words', got none"]
    wav(tmp_path / "long.mp3", 0.1)
    monkeypatch.chdir(tmp_path)  # where the recordings were transcribed
    elsewhere = tmp_path / "out" / "own.json"
    elsewhere.parent.mkdir()
    path.rename(elsewhere)
    corpus = jsonlines.read_transcripts([elsewhere])
    assert one(corpus, "long-0.000").audio == tmp_path / "long.mp3"
    assert one(corpus, "x/whole").audio == tmp_path / "out/x/whole.mp3"


def test_sets_of_the_same_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    row = {"audio": "b.wav", "duration": 1, "text": "yo"}
    for name in ("en", "de"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dev.jsonl").write_text(json.dumps(row | {"id": name}))
    corpus = jsonlines.read_manifests([tmp_path])
    assert parts(corpus) == {"de-dev": ["de"], "en-dev": ["en"]}
    shutil.copytree(tmp_path / "en", tmp_path / "again/en")
    with pytest.raises(ValueError, match="expected sets of different names, got en-dev twice"):
        jsonlines.read_manifests([tmp_path])


def test_lhotse_cuts(tmp_path: Path) -> None:
    def cut(id: str, start: float, supervisions: list[dict[str, Any]], **more: Any) -> str:
        source = {"type": "file", "channels": [0], "source": "a.wav"}
        recording = {"id": "r", "sources": [source], "duration": 4.0, "sampling_rate": 16000}
        row = {"id": id, "start": start, "duration": 4.0 - start, "channel": 0, "type": "MonoCut"}
        return json.dumps(row | {"recording": recording, "supervisions": supervisions} | more)

    def said(id: str, start: float, duration: float, **more: Any) -> dict[str, Any]:
        return {"id": id, "start": start, "duration": duration, "text": id, "speaker": "s"} | more

    words = {"word": [["one", 1.1, 0.4, 0.9], ["two", 1.5, 0.2, None]]}
    lines = [
        cut("whole", 0.0, [said("x", 0.0, 4.0)]),
        cut("part", 1.0, [said("y", 0.5, 1.0), said("z", 2.0, 0.5)]),
        cut("timed", 2.0, [said("w", 1.0, 1.0, alignment=words)]),
        cut("mixed", 0.0, [], type="MixedCut"),
    ]
    with gzip.open(tmp_path / "cuts_dev.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    corpus = jsonlines.read_cuts([tmp_path])
    assert parts(corpus) == {"cuts_dev": ["timed", "whole", "y", "z"]}
    assert one(corpus, "whole").start is None
    assert (one(corpus, "y").start, one(corpus, "z").start) == (1.5, 3.0)
    times = [
        (word.label, round(word.start, 6), round(word.end, 6))
        for word in one(corpus, "timed").words
    ]
    assert times == [("one", 0.1, 0.5), ("two", 0.5, 0.7)]
    assert "expected cuts of type MonoCut, got 'MixedCut'" in problems(corpus)[0]


def test_a_plain_folder(tmp_path: Path) -> None:
    wav(tmp_path / "ann/one.wav")
    wav(tmp_path / "TWO.WAV")
    wav(tmp_path / "three.flac")
    wav(tmp_path / "four.wav")
    (tmp_path / "ann/one.txt").write_text("Hello,\n  Bob!\n")
    (tmp_path / "two.TXT").write_bytes("Caf\xe9".encode("latin-1"))
    (tmp_path / "four.txt").write_bytes("Caf\xe9".encode("utf-16"))
    corpus = folder.read([tmp_path])
    assert parts(corpus) == {"all": ["TWO", "ann/one", "four"]}
    assert (one(corpus, "ann/one").speaker, one(corpus, "TWO").speaker) == ("ann", "unknown")
    assert one(corpus, "ann/one").text == "Hello, Bob!"
    assert one(corpus, "TWO").text == one(corpus, "four").text == "Caf\xe9"
    assert problems(corpus) == [
        f"{tmp_path / 'three.flac'}: missing: its text, a .txt of the same name"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Twenty-one, she said: “No!”", "twenty one she said no"),
        ("DON’T — 'quote'   stop\n", "don't 'quote' stop"),
        ("Café Zoë", "cafe zoe"),
        ("5 o'clock ' now", "5 o'clock now"),
        ("<unk> so [laughter] I {breath} mean", "so i mean"),
        ("wait...what… then,now: e.g. tea", "wait what then now e g tea"),
        ("Rock & roll costs £ 5 %", "rock & roll costs £ 5 %"),
        ("‘Come in,’ he said. ’Tis the dogs’ ‘don’t’", "come in he said 'tis the dogs' don't"),
    ],
)
def test_english_has_letters_apostrophes_and_spaces(text: str, expected: str) -> None:
    assert english(text) == expected


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_broken_transcripts_and_tables_are_problems_and_no_crash(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    root = tmp_path_factory.getbasetemp() / "broken"
    if not root.exists():
        write_timit(root / "timit", SPEAKERS[:2])
        write_wsj(root / "wsj")
        write_others(root)
    for path in sorted(path for path in root.rglob("*") if path.suffix.lower() in TEXTUAL):
        if path.is_dir() or not path.stat().st_size:
            continue
        whole = path.with_name(f"{path.name}.whole")
        if not whole.exists():
            shutil.copy(path, whole)
        data = bytearray(whole.read_bytes())
        for _ in range(int(rng.integers(0, 3))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        path.write_bytes(data[: int(rng.integers(len(data) + 1))] if rng.random() < 0.2 else data)
    for name, reader in BY_FOLDER.items():
        with contextlib.suppress(ValueError, OSError):
            reader([root / name])


TEXTUAL = ("", ".phn", ".wrd", ".ndx", ".dot", ".lsn", ".txt", ".tsv", ".scp", ".json", ".gz")
BY_FOLDER = {"timit": timit.read, "wsj": wsj.read, "libri": libri.read_librispeech,
             "voice": commonvoice.read, "kaldi": kaldi.read, "nemo": jsonlines.read_manifests,
             "cuts": jsonlines.read_cuts, "own": jsonlines.read_transcripts,
             "folder": folder.read}  # fmt: skip


def write_others(root: Path) -> None:
    """Write an utterance in each layout that is not of discs, its audio empty."""
    row = {"audio_filepath": "a.wav", "duration": 1.5, "text": "Hi", "offset": 0.5}
    source = {"type": "file", "channels": [0], "source": "a.wav"}
    recording = {"id": "r", "sources": [source], "duration": 4.0}
    said = {"id": "x", "start": 0, "duration": 4.0, "text": "x", "speaker": "s"}
    cut = {"id": "c", "start": 0, "recording": recording, "supervisions": [said]}
    spoken = {"text": "hi", "start": 0.5, "end": 1.0}
    transcript = {"file": "a.wav", "duration": 1.5, "utterances": [spoken]}
    transcript |= {"words": [spoken | {"confidence": 0.9}]}
    files = {
        "libri/dev-clean/84/121/84-121.trans.txt": "84-121-0000 GO DO\n",
        "libri/dev-clean/84/121/84-121-0000.flac": "",
        "voice/en/dev.tsv": "client_id\tpath\tsentence\nabc\ta.mp3\tYes.\n",
        "voice/en/clips/a.mp3": "",
        "kaldi/dev/wav.scp": "r1 sph2pipe -f wav a.sph |\n",
        "kaldi/dev/text": "u1 hello there\n",
        "kaldi/dev/segments": "u1 r1 0.5 1.25\n",
        "nemo/dev.json": json.dumps(row) + "\n",
        "own/own.json": json.dumps(transcript) + "\n",
        "folder/a.wav": "",
        "folder/a.txt": "Hello\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "cuts").mkdir()
    with gzip.open(root / "cuts/dev.jsonl.gz", "wt") as file:
        file.write(json.dumps(cut) + "\n")


def test_a_folder_that_cannot_be_listed_is_an_error_and_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wav(tmp_path / "one.wav")
    (tmp_path / "one.txt").write_text("one")
    (tmp_path / "locked").mkdir()
    listed = os.scandir

    def refused(place: str) -> Any:
        if place.endswith("locked"):
            raise PermissionError(13, "Permission denied", place)
        return listed(place)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(PermissionError, match="locked"):
        folder.read([tmp_path])


READERS = [timit.read, wsj.read, libri.read_librispeech, libri.read_libritts, commonvoice.read,
           kaldi.read, jsonlines.read_manifests, jsonlines.read_cuts,
           jsonlines.read_transcripts, folder.read]  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_a_folder_without_the_corpus_is_an_error(tmp_path: Path, reader: Any) -> None:
    write_sphere(tmp_path / "some/audio.sph", tone())
    write_index(tmp_path / "some/other.ndx", "1_1", ["wsj0/a.wv1"])
    with pytest.raises(ValueError, match=r"expected .*, got none"):
        reader([tmp_path])
