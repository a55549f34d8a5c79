"""Alternatives of the shipped model: they change nothing of what is written."""

from pathlib import Path

from cortado.model.audio.decode import decode
from cortado.model.nbest import texts
from cortado.model.transcription import load

SAMPLE = Path(__file__).parents[3] / "clients" / "web" / "sample.webm"


def test_who_asks_for_alternatives_has_the_same_text_and_other_words_beside_it() -> None:
    recogniser, sound = load(), decode(SAMPLE)
    plain = recogniser.transcribe(sound)
    asked = recogniser.transcribe(sound, alternatives=3)
    assert asked.characters == plain.characters
    assert not any(word.alternatives for word in plain.words)
    assert sum(len(word.alternatives) == 3 for word in asked.words) > len(asked.words) / 2
    for word in asked.words:
        others = [one.confidence for one in word.alternatives]
        assert others == sorted(others, reverse=True)
        assert word.confidence + sum(others) <= 1.001
        assert word.text not in [one.text for one in word.alternatives]
    first, *rest = texts(asked.words, 5)
    assert str(first) == asked.text.strip()
    assert len({str(first), *map(str, rest)}) == 5


def test_the_last_word_of_a_recording_that_breaks_off_has_its_alternatives_too() -> None:
    recogniser, sound = load(), decode(SAMPLE)
    for count in (100_000, 156_000):  # in the silence behind, a rule ends the utterance
        words = recogniser.transcribe(sound[:count], alternatives=3).words
        assert [len(word.alternatives) for word in words[-2:]] == [3, 3]
