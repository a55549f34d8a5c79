"""The reference that a server writes of itself."""

import json
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
import websockets.sync.client

from cortado.server.doors.deepgram import messages
from cortado.server.doors.deepgram.parameters import EFFECTIVE
from cortado.server.protocol.messages import ErrorCode, Ready, Start
from cortado.server.reference.asyncapi import CHANNELS, document
from cortado.tests.server.running import Running

ADDRESSES = {
    *("/v1/listen", "/v1/audio/transcriptions", "/v1/models", "/v1/models/{name}"),
    *("/v1/realtime/client_secrets", "/v1/auth/grant"),
    *("/v1/info", "/v1/secrets", "/reload", "/health", "/ready", "/metrics"),
}


@pytest.fixture(scope="module")
def sockets() -> dict[str, Any]:
    return document("1.2.3")


def references(content: Any) -> set[str]:
    """Return all references within a document."""
    if isinstance(content, dict):
        own = {content["$ref"]} if isinstance(content.get("$ref"), str) else set()
        return own.union(*map(references, content.values()))
    return set[str]().union(*map(references, content)) if isinstance(content, list) else set()


def test_every_reference_of_the_websockets_leads_somewhere(sockets: dict[str, Any]) -> None:
    assert references(sockets)
    for reference in references(sockets):
        found = sockets
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_the_messages_are_those_of_the_program(sockets: dict[str, Any]) -> None:
    assert json.loads(json.dumps(sockets)) == sockets
    own = sockets["channels"]["cortado"]["messages"]
    schemas = sockets["components"]["schemas"]
    for model in (Start, Ready):
        name = own[model.__name__]["payload"]["$ref"].rpartition("/")[2]
        assert set(schemas[name]["properties"]) == set(model.model_fields)
    codes = next(one["enum"] for name, one in schemas.items() if name.endswith("ErrorCode"))
    assert codes == list(ErrorCode)


def test_each_message_of_deepgram_s_door_is_described(sockets: dict[str, Any]) -> None:
    live = {name for name, one in vars(messages).items() if "type" in fields(one)}
    files = {"Warning"}
    assert set(sockets["channels"]["deepgram"]["messages"]) == live - files | {"Audio"}


def fields(model: Any) -> set[str]:
    """Return the names of a model's fields; of nothing else there are any."""
    own = isinstance(model, type) and model.__module__ == messages.__name__
    return set(getattr(model, "model_fields", {})) if own else set()


def test_every_websocket_has_a_channel(server: Running) -> None:
    for channel in CHANNELS:
        url = server.page.replace("http", "ws", 1) + channel.address
        with websockets.sync.client.connect(url):
            pass


def test_every_address_of_http_is_described(server: Running) -> None:
    found = httpx.get(f"{server.page}/openapi.json").json()
    assert found["openapi"].startswith("3.")
    assert set(found["paths"]) >= ADDRESSES
    answer = found["paths"]["/v1/listen"]["post"]["responses"]
    assert answer["200"]["content"]["application/json"]["schema"]["$ref"].endswith("FileResponse")
    assert {"400", "413", "429"} <= set(answer)
    for path, method, statuses in (
        ("/v1/info", "get", {"200", "401", "403"}),
        ("/metrics", "get", {"200", "401", "403"}),
        ("/v1/secrets", "post", {"200", "401", "403"}),
        ("/reload", "post", {"200", "401", "403", "409", "503"}),
    ):
        assert set(found["paths"][path][method]["responses"]) == statuses
    operations = [one for methods in found["paths"].values() for one in methods.values()]
    assert all(one.get("description", "").endswith(".") for one in operations)
    asked = {one["name"] for one in found["paths"]["/v1/listen"]["post"]["parameters"]}
    assert asked == set(EFFECTIVE)
    for path in ("/v1/auth/grant", "/v1/realtime/client_secrets"):
        body = found["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert body["schema"]["type"] == "object"
        assert not references(body)


class Page(HTMLParser):
    """What a page loads, and whether its elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_names_all_and_loads_nothing_of_another_site(server: Running) -> None:
    answer = httpx.get(f"{server.page}/docs")
    page = Page()
    page.feed(answer.text)
    assert page.open == []
    for channel in CHANNELS:
        assert f"<code>WS {channel.address}</code>" in answer.text
    assert all(f" {address}</code>" in answer.text for address in ADDRESSES)
    for address in page.loads:
        assert httpx.get(server.page + address).status_code == 200
    assert "<script" not in answer.text
