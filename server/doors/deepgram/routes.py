"""Deepgram's addresses."""

import asyncio
import json
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.responses import JSONResponse
from starlette.datastructures import QueryParams

from cortado.model.audio.decode import channels_of
from cortado.model.audio.error import AudioError
from cortado.server.doors.audio import NAME
from cortado.server.doors.body import read_json
from cortado.server.doors.deepgram import file, parameters
from cortado.server.doors.deepgram.live import Live, Shared
from cortado.server.doors.deepgram.messages import (
    FileResponse,
    Grant,
    GrantAsked,
    Refusal,
)
from cortado.server.doors.failures import (
    FAILURES,
    SECRET_STATUSES,
    STATUSES,
    failure,
    understanding,
)
from cortado.server.doors.upload import answers, collected, open_upload, receive
from cortado.server.protocol.messages import ErrorCode, ProtocolError
from cortado.server.service import Service


def routes(service: Service) -> APIRouter:
    """Return the addresses, at which `service` answers."""
    router = APIRouter(tags=["Deepgram"])

    def read(query: QueryParams, *, live: bool) -> parameters.Parameters:
        weighs = service.weighs_phrases
        return parameters.read(query.multi_items(), live=live, weighs_phrases=weighs)

    @router.websocket("/v1/listen")
    async def live(socket: WebSocket) -> None:
        try:
            service.access.identify(socket)
            with understanding():
                asked = read(socket.query_params, live=True)
                asked.require_channels()
        except FAILURES as error:
            await socket.send_denial_response(_refusal(error, "INVALID_QUERY_PARAMETER"))
        else:
            now, channels = datetime.now(UTC), asked.separate(asked.channels)
            shared = Shared(len(channels))
            dialects = [Live(asked, now, channel, shared) for channel in channels]
            await service.connect(socket, *dialects, refusal=_refusal)

    @router.post(
        "/v1/listen",
        response_model=FileResponse,
        responses={status: {"model": Refusal} for status in STATUSES},
        openapi_extra=_asked(),
    )
    async def prerecorded(request: Request) -> Response:
        """Transcribe the audio in the body, of any format or of the raw `encoding` given."""
        try:
            with service.access.admit(request):
                with understanding():
                    asked = read(request.query_params, live=False)
                    _check_kind(request.headers.get("content-type", ""))
                return await _transcribed(service, request, asked)
        except FAILURES as error:
            return _refusal(error)

    @router.post(
        "/v1/auth/grant",
        response_model=Grant,
        responses={status: {"model": Refusal} for status in SECRET_STATUSES},
        openapi_extra=_grant_body(),
    )
    async def grant(request: Request) -> Grant | Response:
        """Return a token that lets a client in for a short time, in place of a key."""
        try:
            service.access.identify_by_key(request)
            with understanding():
                asked = await read_json(request, GrantAsked, service.streams.draining)
        except FAILURES as error:
            return _refusal(error)
        token, _ = service.access.secret(asked.ttl_seconds)
        return Grant(access_token=token, expires_in=asked.ttl_seconds)

    return router


async def _transcribed(
    service: Service, request: Request, asked: parameters.Parameters
) -> Response:
    created = datetime.now(UTC)
    body = await receive(request, service.settings.max_upload_bytes, service.streams.draining)
    with body.content as content:
        most = service.settings.max_message_bytes
        raw = asked.encoding if asked.raw else None
        heard = []
        for channel in asked.separate(await _channels(content, asked)):
            content.seek(0)
            upload = open_upload(
                content,
                most,
                raw,
                asked.sample_rate,
                asked.channels,
                channel,
                phrases=asked.phrases,
                alternatives=asked.others,
            )
            heard.append(await collected(answers(service, upload, request)))
    # Hours of speech take seconds to write down: not on the event loop, which has live streams.
    found = await asyncio.to_thread(file.response, asked, heard, body.sha256, created)
    return Response(found, media_type="application/json")


async def _channels(content: BinaryIO, asked: parameters.Parameters) -> int:
    """Return the number of channels of a file.

    Raises: ProtocolError if they are too many, or there are none.
    """
    if asked.raw or not asked.multichannel:
        return asked.channels
    try:
        found = await asyncio.to_thread(channels_of, Path(NAME), content)
    except AudioError as error:
        raise ProtocolError(ErrorCode.INVALID_AUDIO, str(error)) from None
    if found > parameters.MAX_CHANNELS:
        message = f"expected at most {parameters.MAX_CHANNELS} channels, got {found}"
        raise ProtocolError(ErrorCode.INVALID_AUDIO, message)
    return found


def _refusal(error: Exception, invalid: str = "Bad Request") -> JSONResponse:
    found, name = failure(error, invalid), secrets.token_hex(8)
    body = Refusal(err_code=found.code, err_msg=found.message, request_id=name).model_dump()
    # which clients of a websocket show, since most of them do not read the body
    told = {"dg-error": json.dumps(body), "dg-request-id": name}
    return JSONResponse(body, found.status, {**(found.headers or {}), **told})


def _check_kind(kind: str) -> None:
    """Raise a ValueError for a body that is not audio alone."""
    if kind.startswith("application/json"):
        raise ValueError("body: expected audio, got JSON: no address is fetched here")
    if kind.startswith("multipart/"):
        raise ValueError("body: expected audio, got a form: send the bytes alone")


def _asked() -> dict[str, object]:
    """Return what a request has, as OpenAPI says it."""
    audio = {"schema": {"type": "string", "format": "binary"}}
    named = [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in parameters.EFFECTIVE.items()
    ]
    return {"parameters": named, "requestBody": {"required": True, "content": {"audio/*": audio}}}


def _grant_body() -> dict[str, object]:
    schema = GrantAsked.model_json_schema()
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}
