"""OpenAI's addresses."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from typing import Any, BinaryIO

from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.responses import JSONResponse, StreamingResponse
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from cortado.server.access import Refused
from cortado.server.doors.body import bounded, read_json
from cortado.server.doors.failures import (
    FAILURES,
    SECRET_STATUSES,
    STATUSES,
    Failure,
    failure,
    understanding,
)
from cortado.server.doors.openai import transcription
from cortado.server.doors.openai.configuration import Configuration
from cortado.server.doors.openai.messages import (
    ClientSecret,
    ClientSecretAsked,
    ExpiresAfter,
    Fault,
    Model,
    Models,
    Refusal,
    Transcription,
    VerboseTranscription,
)
from cortado.server.doors.openai.realtime import Realtime
from cortado.server.doors.upload import Upload, answers, collected, open_upload
from cortado.server.protocol.messages import ProtocolError, ServerMessage
from cortado.server.protocol.parsing import quoted
from cortado.server.service import Service

MAX_FIELDS = 128  # of a form, those of 100 phrases among them
FIELD_BYTES = 65_536  # of each field of a form but the file, and of all around it
CHARSETS = (b"utf-8", b"us-ascii", b"iso-8859-1")  # to read one of punycode takes seconds


def routes(service: Service) -> APIRouter:
    """Return the addresses, at which `service` answers."""
    router = APIRouter(tags=["OpenAI"])

    def session() -> tuple[str, Configuration]:
        name = f"sess_{secrets.token_hex(8)}"
        weighs = service.weighs_phrases
        return name, Configuration(name, service.model_name, weighs_phrases=weighs)

    @router.websocket("/v1/realtime")
    async def realtime(socket: WebSocket) -> None:
        name, configuration = session()
        if (passed := service.access.passed(socket)) and passed.session:
            configuration.update(passed.session)
        most = service.settings.transcript_characters
        dialect = Realtime(name, configuration, most)
        await service.connect(socket, dialect, refusal=_refusal)

    @router.post(
        "/v1/realtime/client_secrets",
        response_model=ClientSecret,
        responses={status: {"model": Refusal} for status in SECRET_STATUSES},
        openapi_extra=_secret_body(),
    )
    async def client_secret(request: Request) -> ClientSecret | Response:
        """Return a secret for a browser, with which a Realtime session begins as it says."""
        try:
            service.access.identify_by_key(request)
            _, configuration = session()
            with understanding():
                asked = await read_json(request, ClientSecretAsked, service.streams.draining)
                warnings = configuration.update(asked.session) or None
        except FAILURES as error:
            return _refusal(error)
        made, what = service.access.secret(asked.expires_after.seconds, configuration.carried())
        content = configuration.content()
        return ClientSecret(value=made, expires_at=what.until, session=content, warnings=warnings)

    @router.get(
        "/v1/models",
        response_model=Models,
        responses={status: {"model": Refusal} for status in (401, 403)},
    )
    async def models(request: Request) -> Models | Response:
        """List the model of this server."""
        try:
            service.access.identify(request)
        except Refused as error:
            return _refusal(error)
        return Models(data=[Model(id=service.model_name)])

    @router.get(
        "/v1/models/{name}",
        response_model=Model,
        responses={status: {"model": Refusal} for status in (401, 403, 404)},
    )
    async def model(request: Request, name: str) -> Model | Response:
        """Describe the model of this server."""
        try:
            service.access.identify(request)
            if name != service.model_name:
                message = f"expected {service.model_name}, got {quoted(name)}"
                raise Refused(404, "model_not_found", message)
        except Refused as error:
            return _refusal(error)
        return Model(id=name)

    @router.post(
        "/v1/audio/transcriptions",
        response_model=Transcription | VerboseTranscription,
        responses={status: {"model": Refusal} for status in STATUSES},
        openapi_extra=_body(),
    )
    async def transcribe(request: Request) -> Response:
        """Transcribe the file of a form."""
        with ExitStack() as open_files:
            try:
                open_files.enter_context(service.access.admit(request))
                with understanding():
                    form = await _form(service, request)
                for _, one in form.multi_items():
                    if isinstance(one, UploadFile):  # closed without waiting: see `_stream`
                        open_files.enter_context(one.file)
                return await _answer(service, request, form, open_files)
            except FAILURES as error:
                return _refusal(error)
            except HTTPException as error:  # of a form that cannot be read
                return _refusal(ValueError(error.detail), "invalid_form")

    return router


async def _form(service: Service, request: Request) -> FormData:
    """Return a form with a file; an empty one for a body of another kind, which has none.

    Raises:
        ValueError: it is in a charset that may take long to read.
        ProtocolError: it has more bytes than a file may have, or the server leaves.
    """
    kind, said = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data":
        return FormData()
    if said.get(b"charset", CHARSETS[0]).lower() not in CHARSETS:
        raise ValueError("body: expected a form in UTF-8, got one in another charset")
    limit = service.settings.max_upload_bytes
    expected = f"a file of at most {limit} bytes"
    whole = bounded(request, limit + FIELD_BYTES, expected, service.streams.draining)
    return await whole.form(max_files=1, max_fields=MAX_FIELDS, max_part_size=FIELD_BYTES)


async def _answer(
    service: Service, request: Request, form: FormData, open_files: ExitStack
) -> Response:
    """Return the answer to a form; one that is streamed takes the open files over.

    Raises:
        Misunderstood: what the form asks for is not clear.
        ProtocolError: the audio cannot be transcribed.
    """
    with understanding():
        file, wanted = _asked(service, form)
    most = service.settings.max_message_bytes
    upload = open_upload(file, most, phrases=wanted.phrases)
    if wanted.stream:
        return await _stream(service, request, upload, wanted, open_files.pop_all())
    heard = await collected(answers(service, upload, request))
    card = service.info()["card"].get("card") or {}
    language = str(card.get("language", "")).partition(",")[0].lower() or None
    kind = transcription.TEXT_TYPES.get(wanted.format, "application/json")
    # Hours of speech take seconds to write down: not on the event loop, which has live streams.
    found = await asyncio.to_thread(transcription.answer, wanted, heard, language)
    return Response(found, media_type=kind)


def _asked(service: Service, form: FormData) -> tuple[BinaryIO, transcription.Wanted]:
    """Return the file of a form, and what is asked for beside it.

    Raises: ValueError if the form cannot be understood.
    """
    file = form.get("file")
    if not isinstance(file, UploadFile) and not form:
        raise ValueError("body: expected a form (multipart/form-data) with a file, got none")
    if not isinstance(file, UploadFile):
        raise ValueError("file: expected a file, got none")
    fields = {name: [v for v in form.getlist(name) if isinstance(v, str)] for name in form}
    weighs = service.weighs_phrases
    return file.file, transcription.read(fields, service.model_name, weighs_phrases=weighs)


async def _stream(
    service: Service,
    request: Request,
    upload: Upload,
    wanted: transcription.Wanted,
    open_files: ExitStack,
) -> Response:
    """Return an answer that grows; what is wrong from the start is raised here.

    Where its client hangs up, Starlette cancels each `await` of what it ends.
    """
    messages = answers(service, upload, request)
    try:  # `ready` says nothing of the file
        ready, second = await anext(messages), await anext(messages, None)
    except BaseException:
        open_files.close()
        raise

    async def all_messages() -> AsyncIterator[ServerMessage]:
        yield ready
        if second is not None:
            yield second
        async for message in messages:
            yield message

    async def events() -> AsyncIterator[str]:
        with open_files:
            async with aclosing(messages):
                try:
                    async for one in transcription.streamed(wanted, all_messages()):
                        yield one
                except ProtocolError as error:
                    fault = _fault(failure(error, error.code))
                    yield transcription.event({"error": fault.model_dump()})

    return StreamingResponse(events(), media_type="text/event-stream")


def _refusal(error: Exception, invalid: str = "invalid_value") -> JSONResponse:
    found = failure(error, invalid)
    body = Refusal(error=_fault(found))
    return JSONResponse(body.model_dump(), found.status, found.headers)


def _fault(found: Failure) -> Fault:
    kind = "invalid_request_error" if found.status < 500 else "server_error"
    return Fault(type=kind, code=found.code, message=found.message)


def _body() -> dict[str, Any]:
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    properties = {
        "file": {"type": "string", "format": "binary"},
        "model": text,
        "response_format": {"enum": ["json", "text", "srt", "vtt", "verbose_json"]},
        "timestamp_granularities[]": texts,
        "prompt": text,
        "keywords[]": texts,
        "include[]": texts,
        "stream": {"type": "boolean"},
    }
    schema = {"type": "object", "required": ["file"], "properties": properties}
    return {"requestBody": {"content": {"multipart/form-data": {"schema": schema}}}}


def _secret_body() -> dict[str, Any]:
    expiry = ExpiresAfter.model_json_schema()  # a reference within would lead nowhere
    properties = {"expires_after": expiry, "session": {"type": "object"}}
    schema = {"type": "object", "properties": properties}
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}
