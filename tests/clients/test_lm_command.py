"""`cortado lm` and `cortado transcribe --lm`: a file, and one line for what is made or wrong."""

import json
from itertools import product
from pathlib import Path

import pytest
import soundfile

from cortado.clients import cli
from cortado.model.arrays import buffers
from cortado.model.search.language_file import FILE, read_language
from cortado.model.search.language_model import Language
from cortado.model.vocabulary import ENGLISH, Vocabulary
from cortado.tests import needs
from cortado.tests.model.untrained import noise
from cortado.tests.training.trigram import sentences
from cortado.training.language.file import SearchWeights

Capture = pytest.CaptureFixture[str]

TEXTS = ["it was good", "it was not", "the fox was good"]
# 6 words; bigrams are begun by 2, end by 2, and are it-was, was-good, was-not, the-fox, fox-was


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    row = {"audio": "none.wav", "duration": 1.0, "speaker": "a"}
    rows = [json.dumps(row | {"id": str(n), "text": one}) for n, one in enumerate(TEXTS)]
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    return tmp_path / "train.jsonl"


def made(path: Path, *arguments: str | Path) -> Language:
    """What the command makes."""
    assert cli.main(["lm", *map(str, arguments), "--output", str(path)]) == 0
    return read_language(path, Vocabulary())


def same(a: Language, b: Language) -> bool:
    return list(buffers(a[5:])) == list(buffers(b[5:]))


def test_it_says_what_it_has_made(text: Path, tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "mine"
    usual = made(output, text)
    streams = capsys.readouterr()
    assert streams.out == f"{output}: 6 words, 9 bigrams, 8 trigrams, 0.0 MB\n"
    assert streams.err == ""
    other = made(output, text, "--weight", "0.5", "--bonus", "0", "--outside", "4", "--seen", "2")
    assert ": 3 words, " in capsys.readouterr().out
    assert (other.weight, other.bonus, other.letter) == (0.5, 0.0, -4.0)
    assert usual.weight != other.weight
    made(output, text, "--alphabet", "aitws")
    assert ": 2 words, " in capsys.readouterr().out


def test_words_of_other_letters_are_told_of(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "text").write_bytes("\ufeffdon’t Go home\n".encode())
    made(tmp_path / "mine", tmp_path / "text")
    streams = capsys.readouterr()
    assert ": 2 words, " in streams.out
    assert streams.err.startswith("33% of the text's words are unknown: they have other letters ")


def test_files_and_manifests_are_read_for_their_text(
    text: Path, manifest: Path, tmp_path: Path
) -> None:
    once = made(tmp_path / "once", text)
    assert same(made(tmp_path / "rows", manifest), once)
    twice = made(tmp_path / "twice", text, manifest)
    assert not same(twice, once)
    assert same(made(tmp_path / "rows", manifest, manifest), twice)


def test_a_manifest_may_have_another_alphabet(
    manifest: Path, tmp_path: Path, capsys: Capture
) -> None:
    manifest.write_text(manifest.read_text().replace("fox", "füchse"), encoding="utf-8")
    wanted = ["--alphabet", f"{ENGLISH.strip()}ü", "--output", str(tmp_path / "mine")]
    assert cli.main(["lm", str(manifest), *wanted]) == 0
    assert ": 6 words, " in capsys.readouterr().out


def test_a_neural_model_learns_from_the_same_text(
    text: Path, tmp_path: Path, capsys: Capture
) -> None:
    lm = made(tmp_path / "mine", text, "--neural", "2", "--megabytes", "1")
    assert (lm.neural.share, lm.neural.words) == (0.5, 5)
    assert len(lm.neural.vectors) == 9  # of six words, and of no word in particular
    assert capsys.readouterr().out.startswith("neural language model: perplexity ")
    assert cli.main(["lm", str(text), "-o", str(tmp_path / "mine"), "--neural", "-1"]) == 2


def test_a_file_has_no_more_megabytes_than_asked_for(tmp_path: Path, capsys: Capture) -> None:
    text = tmp_path / "sentences.txt"
    text.write_text(
        "\n".join(sentences(1, 5_000, [f"{a}{b}" for a, b in product(ENGLISH[1:], repeat=2)]))
    )
    whole, half = tmp_path / "whole", tmp_path / "half"
    made(whole, text)
    size = whole.stat().st_size / 2
    fewer = made(half, text, "--megabytes", str(size / 1e6))
    assert 0.8 * size < half.stat().st_size <= size
    assert fewer.known == made(whole, text).known
    capsys.readouterr()
    assert cli.main(["lm", str(text), "-o", str(half), "--megabytes", "0.01"]) == 2
    assert "expected room for the words, 0.0" in capsys.readouterr().err


def test_the_help_names_the_weights_that_a_file_gets(capsys: Capture) -> None:
    assert cli.main(["lm", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    usual = SearchWeights()
    for weight in (usual.weight, usual.bonus, -usual.letter):
        assert f"{weight:g} if not set" in said


def test_mistakes_are_one_line(text: Path, tmp_path: Path, capsys: Capture) -> None:
    blank, foreign, bad = (tmp_path / name for name in ("blank", "foreign", "bad.jsonl"))
    blank.write_text("\n \n")
    foreign.write_text("это было\n")
    bad.write_text("it was good\n")
    output = tmp_path / "out"
    for path, place, message in (
        (tmp_path / "none", output, f"{tmp_path / 'none'}: No such file or directory"),
        (tmp_path, output, f"{tmp_path}: Is a directory"),
        (blank, output, 'expected words of "\'abcdefghijklmnopqrstuvwxyz", got none'),
        (foreign, output, "expected words of"),
        (bad, output, "bad.jsonl, line 1: expected a JSON object, got"),
        (text, tmp_path, f"expected a file in a folder that exists, got {tmp_path}"),
        (text, tmp_path / "no" / "out", "expected a file in a folder that exists"),
        (text, text, f"expected another file than one that is read, got {text}"),
    ):
        assert cli.main(["lm", str(path), "-o", str(place)]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("cortado: ")
        assert message in line
    assert not output.exists()


@needs.full_disk
def test_a_full_disk_is_one_line(text: Path, capsys: Capture) -> None:
    assert cli.main(["lm", str(text), "-o", "/dev/full"]) == 2
    assert capsys.readouterr().err == "cortado: /dev/full: No space left on device\n"


def test_transcribe_weighs_words_in_a_search_alone(
    saved: str, text: Path, tmp_path: Path, capsys: Capture
) -> None:
    audio, words, missing = tmp_path / "a.wav", tmp_path / "mine", tmp_path / "missing"
    soundfile.write(audio, noise(0, 0.8), 16_000)
    made(words, text)
    arguments = ["transcribe", str(audio), "--checkpoint", saved, "--lm"]
    capsys.readouterr()
    assert cli.main([*arguments, str(words)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert cli.main([*arguments, "none", "--beam", "1"]) == 0
    capsys.readouterr()
    for options, message in (
        (
            [str(words), "--beam", "1"],
            f"expected a beam of 2 or more hypotheses with --lm {words}, got 1",
        ),
        ([str(missing)], f"expected a language model at {missing}, got no such file"),
        ([str(tmp_path)], f"expected a language model at {tmp_path / FILE}, got no such file"),
        ([str(text)], f"expected a file made by cortado lm at {text}, got another or a broken one"),
    ):
        assert cli.main([*arguments, *options]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("cortado: ")
        assert message in line
