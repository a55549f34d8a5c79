"""Deepgram's transcription of a file, `POST /v1/listen`."""

from datetime import datetime

from cortado.server.doors.deepgram.messages import (
    Alternative,
    Channel,
    FileMetadata,
    FileResponse,
    FileResults,
    ModelInfo,
    Utterance,
    Warning,
)
from cortado.server.doors.deepgram.parameters import Parameters
from cortado.server.doors.upload import Heard


def response(asked: Parameters, heard: Heard, sha256: str, created: datetime) -> FileResponse:
    """Return the answer to a file in which `heard` was heard."""
    metadata = FileMetadata(
        request_id=heard.session,
        sha256=sha256,
        created=created.isoformat(),
        duration=heard.duration,
        channels=1,
        models=[heard.model],
        model_info={heard.model: ModelInfo(name=heard.model)},
        warnings=[Warning(**one) for one in asked.warnings],
    )
    results = FileResults(channels=[Channel(alternatives=[Alternative.of(heard.words)])])
    if asked.utterances:
        results.utterances = [
            Utterance(
                id=f"{heard.session}-{number}",
                start=one[0].start,
                end=one[-1].end,
                **dict(Alternative.of(one)),
            )
            for number, one in enumerate(heard.utterances)
        ]
    return FileResponse(metadata=metadata, results=results)
