"""Deepgram's transcription of a file, `POST /v1/listen`."""

from collections.abc import Sequence
from datetime import datetime

from cortado.model.captions import Word
from cortado.server.doors.deepgram.messages import (
    Alternative,
    Channel,
    FileMetadata,
    FileResponse,
    FileResults,
    ModelInfo,
    Paragraph,
    Paragraphs,
    Sentence,
    Utterance,
)
from cortado.server.doors.deepgram.parameters import Parameters
from cortado.server.doors.upload import Heard
from cortado.server.doors.words import text_of

PAUSE = 2.0  # seconds between utterances at which a paragraph ends


def response(asked: Parameters, heard: Sequence[Heard], sha256: str, created: datetime) -> str:
    """Return the answer to a file, a `FileResponse`; something was `heard` in each channel."""
    first = heard[0]
    metadata = FileMetadata(
        request_id=first.session,
        sha256=sha256,
        created=created.isoformat(),
        duration=first.duration,
        channels=len(heard),
        models=[first.model],
        model_info={first.model: ModelInfo(name=first.model)},
        warnings=asked.warnings,
    )
    most, punctuated = asked.alternatives, asked.punctuated
    channels = [Channel.of(one.words, most, punctuated=punctuated) for one in heard]
    if asked.paragraphs:
        for channel, one in zip(channels, heard, strict=True):
            channel.alternatives[0].paragraphs = paragraphs(one.utterances)
    utterances = _utterances(heard, punctuated=punctuated) if asked.utterances else None
    results = FileResults(channels=channels, utterances=utterances)
    return FileResponse(metadata=metadata, results=results).model_dump_json(exclude_none=True)


def paragraphs(utterances: Sequence[Sequence[Word]]) -> Paragraphs:
    """Return the words of utterances in paragraphs, an utterance a sentence."""
    groups: list[list[Sequence[Word]]] = []
    for words in utterances:
        if not groups or words[0].start - groups[-1][-1][-1].end >= PAUSE:
            groups.append([])
        groups[-1].append(words)
    found = [
        Paragraph(
            sentences=[
                Sentence(text=text_of(words), start=words[0].start, end=words[-1].end)
                for words in group
            ],
            num_words=sum(map(len, group)),
            start=group[0][0].start,
            end=group[-1][-1].end,
        )
        for group in groups
    ]
    texts = [" ".join(one.text for one in paragraph.sentences) for paragraph in found]
    return Paragraphs(transcript="\n\n".join(texts), paragraphs=found)


def _utterances(heard: Sequence[Heard], *, punctuated: bool) -> list[Utterance]:
    """Return the utterances of all channels in the order in which they begin."""
    found = [
        Utterance(
            id=f"{one.session}-{number}",
            start=words[0].start,
            end=words[-1].end,
            channel=channel,
            **dict(Alternative.of(words, punctuated=punctuated)),
        )
        for channel, one in enumerate(heard)
        for number, words in enumerate(one.utterances)
    ]
    return sorted(found, key=lambda one: one.start)
