"""What a server holds of a stream's text."""

import json
from typing import Any

import pytest

from cortado.model.captions import Word as OwnWord
from cortado.model.captions import words_of
from cortado.model.emission import Character
from cortado.server.protocol import transcript as transcript_module
from cortado.server.protocol.messages import Chars, Endpoint, Final, Word
from cortado.server.protocol.transcript import PIECE, Transcript


def test_a_transcript_keeps_the_last_characters() -> None:
    transcript, text = Transcript(80), ""
    for number in range(300):
        piece = f"{number} "
        text += piece
        transcript.add(piece, [number / 10] * len(piece), [number / 1000] * len(piece))
        assert len(transcript.final(1.0).text) == min(len(text), 80)
    final = transcript.final(30.0)
    assert final.text == text[-80:]
    assert final.times == [float(each) / 10 for each in text[-80:].split() for _ in range(4)]
    assert final.confidences == pytest.approx([time / 100 for time in final.times])
    assert (final.omitted, transcript.characters) == (len(text) - 80, len(text))


def test_a_short_transcript_is_whole() -> None:
    transcript = Transcript(80)
    transcript.add("hé", [0.5, 0.6], [0.5, 0.25])
    word = Word(text="hé", start=0.46, end=0.6, confidence=0.25)
    assert transcript.final(1.0) == Final(
        text="hé", times=[0.5, 0.6], confidences=[0.5, 0.25], duration=1.0, omitted=0, words=[word]
    )


def test_what_a_client_missed_is_said_in_order() -> None:
    transcript = Transcript(80)
    ends = [Endpoint(utterance=n, start=n, end=n + 0.5, position=n + 1.0) for n in range(2)]
    for text, end in zip(("ab", " cd"), ends, strict=True):
        transcript.add(text, [float(len(text))] * len(text), [0.9] * len(text))
        transcript.add_endpoint(end)
    transcript.add(" e", [9.0, 9.5], [1.0, 0.7])
    last = Chars(text=" e", times=[9.0, 9.5], confidences=[1.0, 0.7], position=10.0)
    ends[0].words = [Word(text="ab", start=1.96, end=2.0, confidence=0.9)]
    ends[1].words = [Word(text="cd", start=2.96, end=3.0, confidence=0.9)]
    assert list(transcript.since(7, 2, 10.0)) == []
    assert list(transcript.since(5, 2, 10.0)) == [last]
    assert list(transcript.since(5, 1, 10.0)) == [ends[1], last]
    middle = Chars(text="d", times=[3.0], confidences=[0.9], position=10.0)
    assert list(transcript.since(4, 1, 10.0)) == [middle, ends[1], last]
    whole = list(transcript.since(0, 0, 10.0))
    assert [type(one) for one in whole] == [Chars, Endpoint, Chars, Endpoint, Chars]
    facts, parts = transcript.state()
    again = Transcript.restored(json.loads(json.dumps(facts)), parts, 80)
    assert list(again.since(0, 0, 10.0)) == whole
    assert again.final(10.0) == transcript.final(10.0)


def test_what_a_client_missed_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(characters: list[Character], *rest: Any) -> tuple[OwnWord, ...]:
        texts.append("".join(one.text for one in characters))
        return words_of(characters, *rest)

    texts = list[str]()
    transcript = Transcript(80)
    for number in range(3):
        transcript.add("ab ", [float(number)] * 3, [0.9] * 3)
        transcript.add_endpoint(Endpoint(utterance=number, start=0, end=0, position=0))
    monkeypatch.setattr(transcript_module, "words_of", made)
    missed = transcript.since(0, 0, 10.0)
    assert texts == []
    assert [next(missed).type for _ in range(2)] == ["chars", "endpoint"]
    assert texts == ["ab "]


def test_what_a_client_missed_stays_while_the_stream_goes_on() -> None:
    transcript = Transcript(80, alternatives=2)
    transcript.add("a b", [1.0] * 3, [0.9] * 3, [(1, (("x", 0.5),))])
    transcript.add_endpoint(Endpoint(utterance=0, start=1.0, end=1.0, position=2.0))
    expected = list(transcript.since(0, 0, 2.0))
    missed = transcript.since(0, 0, 2.0)
    for number in range(1100):  # what was missed is forgotten meanwhile
        transcript.add("cd", [2.0] * 2, [0.9] * 2)
        transcript.add_endpoint(Endpoint(utterance=number + 1, start=2, end=2, position=3))
    assert list(missed) == expected


def test_many_characters_that_a_client_missed_come_in_pieces() -> None:
    transcript = Transcript(10_000)
    transcript.add("abcde" * 2000, [1.0] * 10_000, [0.9] * 10_000)
    missed = [one for one in transcript.since(1, 0, 2.0) if isinstance(one, Chars)]
    assert [len(one.text) for one in missed] == [PIECE, PIECE, 10_000 - 1 - 2 * PIECE]
    assert "a" + "".join(one.text for one in missed) == "abcde" * 2000


def test_each_word_comes_with_the_end_of_its_utterance_and_once() -> None:
    transcript = Transcript(80)
    transcript.add("a b", [1.0, 1.1, 1.2], [0.9, 0.9, 0.8])
    ended = transcript.add_endpoint(Endpoint(utterance=0, start=1.0, end=1.2, position=2.0))
    assert [(one.text, one.confidence) for one in ended.words] == [("a", 0.9), ("b", 0.8)]
    transcript.add(" c", [3.0, 3.1], [0.9, 0.9])
    assert [one.text for one in transcript.end_utterance()[0]] == ["c"]
    transcript.add(" d", [4.0, 4.1], [0.9, 0.9])
    assert [one.text for one in transcript.final(5.0).words] == ["d"]


def test_alternatives_come_with_their_words_and_outlive_a_change_of_servers() -> None:
    transcript = Transcript(80, alternatives=2)
    transcript.add("a b", [1.0, 1.1, 1.2], [0.9, 0.9, 0.8], [(1, (("x", 0.5), ("y", 0.1)))])
    transcript.add(" ", [1.3], [0.9], [(0, (("z", 0.25),))])  # of the word before
    facts, parts = transcript.state()
    again = Transcript.restored(json.loads(json.dumps(facts)), parts, 80)
    for each in (transcript, again):
        ended = each.add_endpoint(Endpoint(utterance=0, start=1.0, end=1.2, position=2.0))
        others = [[(a.text, a.confidence) for a in w.alternatives or ()] for w in ended.words]
        assert others == [[("x", 0.05), ("y", 0.01)], [("z", 0.05)]]
        assert [one.text for one in ended.texts or ()] == ["a b", "a z"]
        assert list(each.since(0, 0, 2.0))[-1] == ended
    assert Transcript(80).final(0.0).texts is None


def test_alternatives_are_forgotten_with_their_characters() -> None:
    transcript = Transcript(8, alternatives=2)
    for k in range(40):
        transcript.add("a ", [k, k], [0.5, 0.5], [(1, (("b", 0.5),))])
    assert len(transcript._alternatives) <= 5
    assert all(word.alternatives for word in transcript.final(80.0).words)
