"""What a server holds of a stream's text."""

from cortado.server.protocol.messages import Chars, Endpoint, Final
from cortado.server.protocol.transcript import Transcript


def test_a_transcript_keeps_the_last_characters() -> None:
    transcript, text = Transcript(80), ""
    for number in range(300):
        piece = f"{number} "
        text += piece
        transcript.add(piece, [number / 10] * len(piece))
        assert len(transcript.final(1.0).text) == min(len(text), 80)
    final = transcript.final(30.0)
    assert final.text == text[-80:]
    assert final.times == [float(each) / 10 for each in text[-80:].split() for _ in range(4)]
    assert (final.omitted, transcript.characters) == (len(text) - 80, len(text))


def test_a_short_transcript_is_whole() -> None:
    transcript = Transcript(80)
    transcript.add("hé", [0.5, 0.6])
    assert transcript.final(1.0) == Final(text="hé", times=[0.5, 0.6], duration=1.0, omitted=0)


def test_what_a_client_missed_is_said_in_order() -> None:
    transcript = Transcript(80)
    ends = [Endpoint(utterance=n, start=n, end=n + 0.5, position=n + 1.0) for n in range(2)]
    for text, end in zip(("ab", " cd"), ends, strict=True):
        transcript.add(text, [float(len(text))] * len(text))
        transcript.add_endpoint(end)
    transcript.add(" e", [9.0, 9.5])
    last = Chars(text=" e", times=[9.0, 9.5], position=10.0)
    assert transcript.since(7, 2, 10.0) == []
    assert transcript.since(5, 2, 10.0) == [last]
    assert transcript.since(5, 1, 10.0) == [ends[1], last]
    middle = Chars(text="d", times=[3.0], position=10.0)
    assert transcript.since(4, 1, 10.0) == [middle, ends[1], last]
    whole = transcript.since(0, 0, 10.0)
    assert [type(one) for one in whole] == [Chars, Endpoint, Chars, Endpoint, Chars]
