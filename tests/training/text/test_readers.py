"""The corpora's files, in miniatures, and the words of a vocabulary."""

from pathlib import Path

import pytest

from cortado.tests.training.recorded import write_rows
from cortado.training.text.readers import Pair, read
from cortado.training.text.vocabulary import Words

STORY = """LONDON, England (CNN) -- Harry Potter star isn't spending his cash

He turns 18 on Monday.

@highlight

Young actor says he has no plans

@highlight

His earnings are held in trust.
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_json_lines_are_pairs_cut_at_the_longest(tmp_path: Path) -> None:
    rows = [{"source": "a b c", "target": "x y"}, {"source": "", "target": "none"}]
    path = write_rows(tmp_path / "a.jsonl", rows)
    assert read((path,), 2, 1) == [Pair(("a", "b"), ("x",))]
    assert read((path,), 2, None) == [Pair(("a", "b"), ("x", "y"))]


def test_iwslt_is_two_files_whose_case_is_kept(tmp_path: Path) -> None:
    english = write(tmp_path / "train.en", "Rachel Pike : The science\nI &apos;d like to\n\n")
    vietnamese = write(tmp_path / "train.vi", "Khoa học đằng sau\nTôi muốn\n\n")
    assert read((english, vietnamese), 9, 9) == [
        Pair(("Rachel", "Pike", ":", "The", "science"), ("Khoa", "học", "đằng", "sau")),
        Pair(("I", "&apos;d", "like", "to"), ("Tôi", "muốn")),
    ]


def test_gigaword_is_two_files_with_its_own_unknown_word(tmp_path: Path) -> None:
    article = write(tmp_path / "train.article.txt", "greek <unk> approved #.# billion\n")
    title = write(tmp_path / "train.title.txt", "greek government approves\n")
    [pair] = read((article, title), 99, 99)
    assert pair.source == ("greek", "<unk>", "approved", "#.#", "billion")
    words = Words.of([pair.source], 3)
    assert words.encode(pair.source) == [0, 0, 2, 1, 0]  # by frequency, then by the alphabet


def test_files_of_different_lengths_are_refused(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a", "a\nb\n"), write(tmp_path / "b", "a\n")
    with pytest.raises(ValueError, match=r"as many lines in .*b as in .*a, 3, got 2"):
        read((one, other), 9, 9)


def test_a_story_is_its_article_and_its_highlights(tmp_path: Path) -> None:
    write(tmp_path / "1.story", STORY)
    [pair] = read((tmp_path,), 400, 100)
    article = "london , england ( cnn ) - - harry potter star isn't spending his cash . he turns 18"
    assert " ".join(pair.source) == f"{article} on monday ."
    highlights = "young actor says he has no plans . his earnings are held in trust ."
    assert " ".join(pair.target) == highlights


def test_what_is_no_corpus_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    broken = write(tmp_path / "a.jsonl", '{"source": "a", "target": "b"}\n{"text": "c"}\n')
    with pytest.raises(ValueError, match=r"a.jsonl:2: expected an object with the texts `source`"):
        read((broken,), 9, 9)
    broken.write_bytes(b'{"source": "caf\xe9"}\n')
    with pytest.raises(ValueError, match=r"a.jsonl:1: expected an object"):
        read((broken,), 9, 9)
    with pytest.raises(ValueError, match="two files of lines or a folder of stories, got 3 paths"):
        read((broken,) * 3, 9, 9)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match=r"expected pairs of texts in .*empty, got none"):
        read((empty,), 9, 9)
    write(empty / "1.story", "no highlights")
    with pytest.raises(ValueError, match=r"1.story: expected @highlight in a story, got none"):
        read((empty,), 9, 9)


def test_words_that_a_vocabulary_lacks_have_indices_behind_the_end() -> None:
    words = Words.of([["the", "cat", "the", "dog"], ["the", "cat"]], 3)
    assert words.words == ("<unk>", "the", "cat")
    text = ["the", "zebra", "sees", "the", "newt", "zebra"]
    extra = words.lacking(text)
    assert extra == ("zebra", "sees", "newt")
    assert words.encode(text) == [1, 0, 0, 1, 0, 0]
    assert words.encode(text, extra) == [1, 4, 5, 1, 6, 4]  # 3 is the end
    assert words.decode(words.encode(text, extra), extra) == text
