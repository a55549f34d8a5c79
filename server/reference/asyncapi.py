"""The websockets as an AsyncAPI document, made from the types of their messages."""

from typing import Any, NamedTuple, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from cortado.server.doors import vosk
from cortado.server.doors.deepgram import messages as deepgram
from cortado.server.doors.openai import messages as openai
from cortado.server.protocol.messages import ClientMessage, ServerMessage

SCHEMA = "#/components/schemas/{model}"
AUDIO = {"type": "string", "format": "binary"}


class Channel(NamedTuple):
    """The messages at one address."""

    name: str
    address: str
    description: str
    said: tuple[type[BaseModel], ...]  # by a client
    answered: tuple[type[BaseModel], ...]
    has_frames: bool = True  # audio is in binary frames


CHANNELS = (
    Channel(
        "cortado",
        "/v1/stream",
        "Cortado's own protocol; docs/protocol.md describes each field.",
        get_args(ClientMessage),
        get_args(ServerMessage),
    ),
    Channel(
        "deepgram",
        "/v1/listen",
        "Deepgram's live transcription; the parameters are those of POST /v1/listen.",
        (deepgram.Control,),
        (
            *(deepgram.Results, deepgram.SpeechStarted, deepgram.UtteranceEnd),
            *(deepgram.Metadata, deepgram.ConfigureFailure, deepgram.Error),
        ),
    ),
    Channel(
        "openai",
        "/v1/realtime",
        "OpenAI's Realtime transcription sessions.",
        (openai.Update, openai.Append, openai.Commit, openai.Clear),
        (
            *(openai.SessionEvent, openai.SpeechStarted, openai.SpeechStopped, openai.Committed),
            *(openai.ItemAdded, openai.Delta, openai.Completed, openai.Cleared, openai.Failed),
        ),
        has_frames=False,
    ),
    Channel(
        "vosk",
        "/",
        "vosk-server's protocol: each message of audio has one answer.",
        (vosk.Control,),
        (vosk.Partial, vosk.Result, vosk.Alternatives, vosk.Error),
    ),
)


def document(version: str) -> dict[str, Any]:
    """Return the document (AsyncAPI 3.0) of a server of that version."""
    told = [(one, "validation") for channel in CHANNELS for one in channel.said]
    answered = [(one, "serialization") for channel in CHANNELS for one in channel.answered]
    places, schemas = models_json_schema([*told, *answered], ref_template=SCHEMA)  # type: ignore[list-item]
    payloads = {model: place for (model, _), place in places.items()}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Cortado", "version": version},
        "channels": {channel.name: _channel(channel, payloads) for channel in CHANNELS},
        "operations": {
            f"{channel.name}{name}": _operation(channel, action, models)
            for channel in CHANNELS
            for name, action, models in (
                ("Listens", "receive", channel.said),
                ("Answers", "send", channel.answered),
            )
        },
        "components": {"schemas": schemas.get("$defs", {})},
    }


def _channel(channel: Channel, payloads: dict[Any, Any]) -> dict[str, Any]:
    messages = {
        model.__name__: {
            "summary": (model.__doc__ or "").partition("\n")[0],
            "contentType": "application/json",
            "payload": payloads[model],
        }
        for model in (*channel.said, *channel.answered)
    }
    if channel.has_frames:
        messages["Audio"] = {
            "summary": "A binary frame of audio.",
            "contentType": "application/octet-stream",
            "payload": AUDIO,
        }
    return {
        "address": channel.address,
        "description": channel.description,
        "messages": messages,
    }


def _operation(channel: Channel, action: str, models: tuple[type[BaseModel], ...]) -> Any:
    names = [model.__name__ for model in models]
    if channel.has_frames and action == "receive":
        names.append("Audio")
    where = f"#/channels/{channel.name}"
    messages = [{"$ref": f"{where}/messages/{name}"} for name in names]
    return {"action": action, "channel": {"$ref": where}, "messages": messages}
