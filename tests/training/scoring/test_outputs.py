"""What evaluations write: JSON, files for sclite, and comparisons with another run's JSON."""

import json
from pathlib import Path

import jiwer
import pytest

from cortado.tests.training.scoring.heard import characters, evaluated, utterance
from cortado.training.scoring.comparison import compared, read_other
from cortado.training.scoring.evaluate import Rules, SetScore
from cortado.training.scoring.outputs import timed_words, write_json, write_sclite
from cortado.training.scoring.report import comparison, further

SAID = ["the cat sat", "a dog", "no"]
GOOD, BAD = ["the cat sat", "a dog", "oh no"], ["the hat sat", "dog", "now"]


def tiny(heard: list[str], rules: Rules | None = None) -> SetScore:
    said = [utterance(f"a_{k}-x", text) for k, text in enumerate(SAID)]
    return evaluated(said, heard, rules)


def test_the_json_has_every_figure_group_confusion_and_text(tmp_path: Path) -> None:
    write_json([tiny(BAD)], tmp_path / "scores.json")
    [found] = json.loads((tmp_path / "scores.json").read_text())["sets"]
    words = jiwer.process_words(SAID, BAD)
    assert found["wer"] == found["rate"] == words.wer
    assert found["cer"] == jiwer.cer(SAID, BAD)
    assert found["unit"] == "word"
    assert found["normalisation"].startswith("none: ")
    assert found["sclite"]["rate"] == words.wer
    assert found["delay"]["p50_ms"] == 100
    assert set(found["by"]) == {"speaker", "length"}
    assert ["cat", "hat", 1] in found["confusions"]["substituted"]
    assert [row["hypothesis"] for row in found["results"]] == BAD


def test_characters_may_be_the_unit(tmp_path: Path) -> None:
    write_json([tiny(BAD, Rules.named("char"))], tmp_path / "scores.json")
    [found] = json.loads((tmp_path / "scores.json").read_text())["sets"]
    output = jiwer.process_characters(SAID, BAD)
    assert found["rate"] == found["cer"] == output.cer
    assert found["wer"] == jiwer.wer(SAID, BAD)
    assert found["deletions"] == output.deletions
    assert found["sclite"] is None


def test_words_begin_with_the_frame_of_their_first_character() -> None:
    words = timed_words(characters(" ab  c"))
    assert [word.word for word in words] == ["ab", "c"]
    assert [word.start for word in words] == pytest.approx([0.2, 0.36])
    assert [word.end for word in words] == pytest.approx([0.28, 0.4])


def test_sclite_gets_references_and_hypotheses_in_its_forms(tmp_path: Path) -> None:
    write_sclite([tiny(BAD)], tmp_path / "sclite")
    files = {path.name: path.read_text() for path in (tmp_path / "sclite").iterdir()}
    assert files["tiny-dev.ref.trn"].splitlines()[0] == "the cat sat (a.0_a.0.x)"
    assert files["tiny-dev.hyp.trn"].splitlines()[0] == "the hat sat (a.0_a.0.x)"
    assert files["tiny-dev.ref.stm"].splitlines()[0] == "a.0.x 1 a.0 0.000 2.000 the cat sat"
    assert files["tiny-dev.hyp.ctm"].splitlines()[0] == "a.0.x 1 0.160 0.120 the"


def test_a_run_is_held_against_another_s_json(tmp_path: Path) -> None:
    write_json([tiny(BAD)], tmp_path / "before.json")
    [found] = compared([tiny(GOOD)], read_other(tmp_path / "before.json"))
    assert found.comparison.rate == pytest.approx(1 / 6)
    assert found.comparison.other_rate == pytest.approx(3 / 6)
    sentence = comparison(found)
    assert "16.67 % against 50.00 % of given on 3 utterances: -33.33 points" in sentence


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    write_json([tiny(BAD, Rules.named("char"))], path)
    with pytest.raises(ValueError, match="expected unit 'word' in both, got 'char'"):
        compared([tiny(GOOD)], read_other(path))
    write_json([evaluated([utterance("x-1", "a")], ["a"], name="other/dev")], path)
    with pytest.raises(ValueError, match="expected a set of tiny/dev to compare with"):
        compared([tiny(GOOD)], read_other(path))
    for content in ("", "[]", '{"sets": [{"name": "tiny/dev"}]}'):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"before\.json, got something else"):
            read_other(path)


def test_the_terminal_shows_groups_confusions_and_alignments() -> None:
    from rich.console import Console

    console = Console(width=132)
    with console.capture() as capture:
        for part in further(tiny(BAD)):
            console.print(part)
    text = capture.get()
    for expected in ("by speaker", "by length", "1 x cat → hat", "said   the cat sat"):
        assert expected in text
