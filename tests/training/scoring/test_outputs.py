"""What evaluations write: JSON, files for sclite, and comparisons with another run's JSON."""

import json
from dataclasses import replace
from pathlib import Path

import jiwer
import pytest

from cortado.tests.training.scoring.heard import evaluated, phones, printed, utterance
from cortado.training.data.evaluation_sets import NamedSet
from cortado.training.scoring.comparison import check_comparable, compared, read_other
from cortado.training.scoring.evaluate import Rules, SetScore
from cortado.training.scoring.outputs import write_json, write_sclite
from cortado.training.scoring.report import comparison, further, table

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


def test_phone_errors_are_a_rate_of_phones_alone(tmp_path: Path) -> None:
    said = utterance("a_0-x", "shy", phones=phones("h# sh ay h#"))
    found = evaluated([said], ["h# sh iy h#"], Rules.named("phone"))
    write_json([found], tmp_path / "scores.json")
    [written] = json.loads((tmp_path / "scores.json").read_text())["sets"]
    assert written["per"] == written["rate"] == 0.25
    assert written["per_ci95"] == written["rate_ci95"]
    assert not {"wer", "cer", "wer_ci95", "cer_ci95"} & written.keys()
    headers = [str(column.header) for column in table([found]).columns]
    assert "PER %" in headers
    assert not {"WER %", "CER %"} & {*headers}
    first = [next(iter(column.cells)) for column in table([found]).columns]
    cells = dict(zip(headers, first, strict=True))
    assert cells["PER %"] == "25.0"
    assert (cells["sub"], cells["del"], cells["loops"]) == ("1", "0", "0")


def test_sclite_gets_references_and_hypotheses_in_its_forms(tmp_path: Path) -> None:
    write_sclite([tiny(BAD)], tmp_path / "sclite")
    files = {path.name: path.read_text() for path in (tmp_path / "sclite").iterdir()}
    assert files["tiny-dev.ref.trn"].splitlines()[0] == "the cat sat (a.0_a.0.x)"
    assert files["tiny-dev.hyp.trn"].splitlines()[0] == "the hat sat (a.0_a.0.x)"
    assert files["tiny-dev.ref.stm"].splitlines()[0] == "a.0.x 1 a.0 0.000 2.000 the cat sat"
    assert files["tiny-dev.hyp.ctm"].splitlines()[0] == "a.0.x 1 0.160 0.120 the"


def test_no_word_of_sclite_s_ends_behind_its_recording(tmp_path: Path) -> None:
    said = replace(utterance("a", "the cat sat"), duration=0.5)  # a character each 40 ms from 0.2 s
    write_sclite([evaluated([said], ["the cat sat"])], tmp_path)
    rows = [line.split() for line in (tmp_path / "tiny-dev.hyp.ctm").read_text().splitlines()]
    assert [row[4] for row in rows] == ["the", "cat", "sat"]
    assert max(float(start) + float(length) for _, _, start, length, _ in rows) == 0.5


def test_sclite_s_names_stay_different(tmp_path: Path) -> None:
    ids = ["a-b", "a_b", "a.b.2", "a/b"]
    said = [utterance(name, "no") for name in ids]
    write_sclite([evaluated(said, ["no"] * 4)], tmp_path)
    lines = (tmp_path / "tiny-dev.ref.stm").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["a.b", "a.b.2", "a.b.2.2", "a.b.3"]
    speakers = {one.speaker: line.split()[2] for one, line in zip(said, lines, strict=True)}
    assert len(set(speakers.values())) == len(speakers) == 4


def test_a_run_is_held_against_another_s_json(tmp_path: Path) -> None:
    write_json([tiny(BAD)], tmp_path / "before.json")
    [found] = compared([tiny(GOOD)], read_other(tmp_path / "before.json"))
    assert found.rate == pytest.approx(1 / 6)
    assert found.other_rate == pytest.approx(3 / 6)
    sentence = comparison(found)
    assert "16.67 % against 50.00 % of given on 3 utterances: -33.33 points" in sentence


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    said = tuple(one.utterance for one in tiny(GOOD).results)
    sets, rules = [NamedSet("tiny/dev", said)], Rules.named()
    write_json([tiny(BAD, Rules.named("char"))], path)
    with pytest.raises(ValueError, match="expected unit 'word' in both, got 'char'"):
        check_comparable(sets, rules, read_other(path))
    write_json([evaluated([utterance("x-1", "a")], ["a"], name="other/dev")], path)
    with pytest.raises(ValueError, match="a set named tiny/dev in the other run, got other/dev"):
        check_comparable(sets, rules, read_other(path))
    write_json([evaluated([utterance("x-1", "a")], ["a"])], path)
    with pytest.raises(ValueError, match="expected utterances that are in both, got none"):
        check_comparable(sets, rules, read_other(path))
    write_json([tiny(BAD)], path)
    check_comparable(sets, rules, read_other(path))
    for content in ("", "[]", '{"sets": [{"name": "tiny/dev"}]}'):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"before\.json, got something else"):
            read_other(path)


def test_the_terminal_shows_groups_confusions_and_alignments() -> None:
    text = printed(*further(tiny(BAD)))
    for expected in ("by speaker", "by length", "1 x cat → hat", "ref  the cat sat"):
        assert expected in text
