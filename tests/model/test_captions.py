"""Words of characters, captions of words: the limits hold, and readers of the formats agree."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortado.model.captions import Cue, Word, cues, srt, vtt, words_of
from cortado.model.emission import Character
from cortado.model.transcript import FORMATS, Transcript

SHARED = Path(__file__).parent.parent / "clients" / "web" / "captions.json"

Utterances = tuple[tuple[Character, ...], ...]


def spoken(text: str, start: float = 1.0, pace: float = 0.08) -> tuple[Character, ...]:
    return tuple(Character(one, round(start + k * pace, 3)) for k, one in enumerate(text))


def captions(*utterances: tuple[Character, ...]) -> list[Cue]:
    return cues(map(words_of, utterances))


def lines(*utterances: tuple[Character, ...]) -> list[tuple[str, ...]]:
    return [cue.lines for cue in captions(*utterances)]


@st.composite
def talks(draw: st.DrawFn) -> Utterances:
    """Utterances whose characters come at any pace and never go back."""
    step, found = 1, []
    texts = st.lists(st.text("ab  ", min_size=1, max_size=90), max_size=3)
    for text in draw(texts):
        characters = []
        for one in text:
            step += draw(st.sampled_from((0, 1, 1, 2, 3, 30, 250)))
            characters.append(Character(one, round(step * 0.04, 3)))
        found.append(tuple(characters))
        step += draw(st.sampled_from((1, 20, 5000)))
    return tuple(found)


def test_a_word_begins_a_frame_before_its_first_character() -> None:
    assert words_of(spoken(" ab  c", 1.0, 0.1)) == (Word("ab", 1.06, 1.2), Word("c", 1.46, 1.5))
    at_once = (Character("a", 0.0), Character(" ", 0.04), Character("b", 0.04))
    assert words_of(at_once) == (Word("a", 0.0, 0.0), Word("b", 0.0, 0.04))
    assert words_of([]) == ()
    assert words_of(spoken("  ")) == ()


def test_nothing_gives_no_caption() -> None:
    assert captions() == captions(spoken("  ")) == []
    assert srt([]) == ""
    assert vtt([]) == "WEBVTT\n\n"


def test_one_character_stands_for_a_second() -> None:
    assert captions(spoken("a")) == [Cue(0.96, 1.96, ("a",))]


def test_utterances_minutes_apart_are_captions_of_their_own() -> None:
    first, second = captions(spoken("one two"), spoken("three", 600.0))
    assert (first.lines, second.lines) == (("one two",), ("three",))
    assert (first.end, second.start) == (1.96, 599.96)
    [once] = captions(spoken("one"), ())
    assert once.end == 1.96


def test_a_caption_gives_way_to_the_next_utterance() -> None:
    first, second = captions(spoken("a"), spoken("b", 1.5))
    assert first.end == second.start == 1.46


def test_a_pause_of_more_than_a_second_ends_a_caption() -> None:
    assert lines(spoken("one ") + spoken("two", 3.0)) == [("one",), ("two",)]
    assert lines(spoken("one ") + spoken("two", 2.0)) == [("one two",)]


def test_a_full_caption_ends_at_the_longest_pause_of_its_second_half() -> None:
    text = "abcdefghi " * 10  # eight words fit
    assert [len(" ".join(one).split()) for one in lines(spoken(text, pace=0.04))] == [8, 2]
    paused = spoken(text[:60], pace=0.04) + spoken(text[60:], 4.0, 0.04)
    assert [len(" ".join(one).split()) for one in lines(paused)] == [6, 4]


def test_a_caption_stands_for_seven_seconds_at_most() -> None:
    slow = captions(spoken("a " * 20, pace=0.5))
    assert [len(" ".join(one.lines).split()) for one in slow] == [7, 7, 6]
    [dragged] = captions(spoken("word", pace=4.0))
    assert dragged.end - dragged.start == 7.0


def test_a_word_longer_than_a_line_is_cut_in_place_and_time() -> None:
    assert lines(spoken("ab " + "x" * 100 + " cd", pace=0.01)) == [
        ("ab", "x" * 42),
        ("x" * 42, "x" * 16 + " cd"),
    ]


@given(talks())
def test_the_limits_hold_and_no_letter_is_lost(talk: Utterances) -> None:
    found = captions(*talk)
    letters = "".join(one.text for utterance in talk for one in utterance)
    assert "".join("".join(one.lines) for one in found).replace(" ", "") == letters.replace(" ", "")
    for cue in found:
        assert 1 <= len(cue.lines) <= 2
        assert all(1 <= len(line) <= 42 for line in cue.lines)
        assert 0 <= cue.start <= cue.end <= cue.start + 7.0005
    for one, two in pairwise(found):
        assert one.end <= two.start
        assert one.end - one.start >= min(1.0, two.start - one.start) - 1e-3
    assert all(one.end - one.start >= 0.9995 for one in found[-1:])


BLOCK = r"(\d\d):(\d\d):(\d\d){}(\d\d\d) --> (\d\d):(\d\d):(\d\d){}(\d\d\d)\n((?:.+\n)+)"


def read(text: str, mark: str, head: str = "") -> list[Cue]:
    """Read captions as a player does."""
    found = []
    for block in re.finditer(head + BLOCK.replace("{}", mark), text):
        hours = [int(part) for part in block.groups()[-9:-1]]
        start, end = (h * 3600 + m * 60 + s + ms / 1000 for h, m, s, ms in (hours[:4], hours[4:]))
        found.append(Cue(round(start, 3), round(end, 3), tuple(block.groups()[-1].splitlines())))
    return found


def test_formats_are_read_back_as_they_were() -> None:
    some = captions(spoken("one two " * 30), spoken("three four", 3661.001), spoken("five", 7e4))
    assert len(some) > 4
    assert read(srt(some), ",", r"\d+\n") == some
    assert re.findall(r"^\d+$", srt(some), re.MULTILINE) == [str(n + 1) for n in range(len(some))]
    assert vtt(some).startswith("WEBVTT\n\n")
    assert read(vtt(some), r"\.") == some


def test_webvtt_takes_marks_for_letters() -> None:
    assert "\na &lt;b&gt; &amp;\n" in vtt([Cue(0, 1, ("a <b> &",))])


def test_ctm_has_a_line_for_each_word() -> None:
    heard = Transcript((spoken("ab c", pace=0.1), spoken("d", 600.0)), 700.0)
    assert FORMATS["ctm"](Path("a/my talk.wav"), heard).splitlines() == [
        "my_talk 1 0.96 0.14 ab",
        "my_talk 1 1.26 0.04 c",
        "my_talk 1 599.96 0.04 d",
    ]
    assert FORMATS["ctm"](Path("-"), Transcript((), 0.0)) == ""


def test_json_has_the_words_and_json_lines_is_without_them() -> None:
    heard = Transcript((spoken("ab c ", pace=0.1),), 2.0)
    lines, content = (json.loads(FORMATS[form](Path("a"), heard)) for form in ("jsonl", "json"))
    assert content.pop("words")[0] == {
        "text": "ab",
        "start": 0.96,
        "end": 1.1,
        "confidence": 1.0,
    }
    assert content == lines
    assert lines["utterances"] == [{"text": "ab c", "start": 0.96, "end": 1.3}]
    assert lines["text"] == "ab c"  # the decoder writes a space at the end of a word


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_captions_are_those_of_the_page(form: str) -> None:
    shared = json.loads(SHARED.read_text())
    heard = Transcript(
        tuple(tuple(Character(*one) for one in utterance) for utterance in shared["utterances"]),
        shared["utterances"][-1][-1][1],
    )
    assert FORMATS[form](Path("talk.wav"), heard) == shared[form]
