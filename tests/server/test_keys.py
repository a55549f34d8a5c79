"""Who may come in: keys, short-lived secrets, limits of each, TLS, and what is said of it all."""

import asyncio
import http.client
import json
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import websockets
from starlette.datastructures import Headers
from websockets.http11 import Response

from cortado.clients.cli import main
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.server import logs
from cortado.server import run as run_module
from cortado.server.callers import Caller, Callers
from cortado.server.credentials import credentials
from cortado.server.keys import MAX_LENGTH, KeyFile, Keys
from cortado.server.settings import read_settings, unknown_variables
from cortado.server.short_lived import ShortLived
from cortado.server.signing import Signer
from cortado.tests import needs
from cortado.tests.https import self_signed
from cortado.tests.server.running import END, START, Running, converse, running, say, wait_for

SHORT_LIVED = ShortLived(Signer(""))


class Locked(NamedTuple):
    """A server that wants keys."""

    server: Running
    file: KeyFile
    key: str  # of phone-app


@pytest.fixture(scope="module")
def locked(
    online: ReferenceRecognizer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Locked]:
    file = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    key = file.add("phone-app")
    with running(online, keys=file.path, max_streams_per_key=1) as server:
        yield Locked(server, file, key)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def status(url: str, **options: object) -> int:
    """Return the status with which a handshake is refused."""
    return _refusal(url, **options).status_code


def denied(url: str, **options: object) -> Any:
    """Return the JSON with which a handshake is refused."""
    return json.loads(_refusal(url, **options).body)


def _refusal(url: str, **options: object) -> Response:
    with pytest.raises(websockets.InvalidStatus) as caught:
        say(url, **options)
    return caught.value.response


def test_a_key_lets_in_and_nothing_else_does(locked: Locked) -> None:
    url = locked.server.url
    assert say(url, START, END, additional_headers=bearer(locked.key)).close_code == 1000
    name, reason = "cortado_connections_refused_total", "key"
    before = locked.server.metric(name, reason=reason)
    wrong = ["", "ck_phone-app_", locked.key[:-1], locked.key + "1", "ck_nobody_" + locked.key]
    for key in [*wrong, "é", "1" * (MAX_LENGTH + 1)]:
        assert status(url, additional_headers=bearer(key)) == 401
    assert status(url) == 401
    assert locked.server.metric(name, reason=reason) == before + 8


@pytest.mark.parametrize("path", ["/v1/info", "/metrics"])
def test_what_is_known_of_the_server_needs_a_key_and_its_health_does_not(
    path: str, locked: Locked
) -> None:
    refused = httpx.get(locked.server.page + path)
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert httpx.get(locked.server.page + path, headers=bearer(locked.key)).status_code == 200
    for open_to_all in ("/health", "/ready", "/"):
        assert httpx.get(locked.server.page + open_to_all).status_code == 200


@pytest.mark.parametrize(("key", "got"), [(None, "none"), ("ck_nobody_1", "an unknown one")])
def test_who_is_not_let_in_is_told_that_a_key_is_expected_and_what_came(
    key: str | None, got: str, locked: Locked
) -> None:
    page, headers = locked.server.page, bearer(key) if key else {}
    message = f"expected an API key that this server knows, got {got}"
    assert httpx.get(f"{page}/v1/info", headers=headers).json() == {
        "error": "key",
        "message": message,
    }
    answer = denied(locked.server.url, additional_headers=headers)
    assert answer == {"error": "key", "message": message}
    told = httpx.post(f"{page}/v1/listen", headers=headers).json()
    assert (told["err_code"], told["err_msg"]) == ("key", message)
    [of_deepgram, of_openai] = [
        denied(page.replace("http", "ws", 1) + path, additional_headers=headers)
        for path in ("/v1/listen", "/v1/realtime")
    ]
    assert (of_deepgram["err_code"], of_deepgram["err_msg"]) == ("key", message)
    assert (of_openai["error"]["code"], of_openai["error"]["message"]) == ("key", message)
    for method, path in (("POST", "audio/transcriptions"), ("GET", "models"), ("GET", "models/x")):
        refused = httpx.request(method, f"{page}/v1/{path}", headers=headers)
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        fault = refused.json()["error"]
        assert (fault["code"], fault["message"]) == ("key", message)


def test_a_key_is_found_in_each_form() -> None:
    protocol = "sec-websocket-protocol"
    for given, key, answered in (
        ([("authorization", "bearer  ck_a ")], "ck_a", None),
        ([("authorization", "Basic ck_a")], None, None),
        ([(protocol, "token, ck_a")], "ck_a", "token"),
        ([(protocol, "Bearer"), (protocol, "ck_a")], "ck_a", "Bearer"),
        ([(protocol, "realtime"), (protocol, "openai-insecure-api-key.ck_a")], "ck_a", "realtime"),
        ([(protocol, "token")], None, "token"),
        ([], None, None),
    ):
        raw = [(name.encode(), value.encode()) for name, value in given]
        assert credentials(Headers(raw=raw)) == (key, answered)


def test_a_client_s_key_reloads_nothing(locked: Locked) -> None:
    assert httpx.post(f"{locked.server.page}/reload").status_code == 401
    answer = httpx.post(f"{locked.server.page}/reload", headers=bearer(locked.key))
    wanted = "expected the key named operator, or without keys a call of this machine"
    assert (answer.status_code, answer.json()) == (
        403,
        {"error": "operator", "message": wanted},
    )


def test_a_page_gets_in_with_a_short_lived_secret(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, url = locked.server.page, locked.server.url
    found = httpx.post(f"{page}/v1/secrets", headers=bearer(locked.key)).json()
    protocols = [websockets.Subprotocol("bearer"), websockets.Subprotocol(found["secret"])]
    assert say(url, START, END, subprotocols=protocols).close_code == 1000
    turned = found["secret"][:-1] + ("A" if found["secret"][-1] != "A" else "B")
    for forged in (turned, found["secret"][:20], "cs_", "cs_ü"):
        assert locked.server.service.access.keys is not None
        assert locked.server.service.access.keys.name(forged) is None
    again = httpx.post(f"{page}/v1/secrets", headers=bearer(found["secret"]))
    expected = "expected an API key, got a short-lived secret, which can ask for no other"
    assert (again.status_code, again.json()) == (
        403,
        {"error": "short_lived_secret", "message": expected},
    )
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + found["seconds"] + 1)
    assert status(url, subprotocols=protocols) == 401


def test_a_secret_of_the_operator_does_not_reload(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, key = locked.server.page, locked.file.add("operator")
    reloads: list[str] = []

    async def reload() -> None:
        reloads.append(page)

    monkeypatch.setattr(locked.server.service, "reload", reload)
    found = httpx.post(f"{page}/v1/secrets", headers=bearer(key)).json()
    assert httpx.post(f"{page}/reload", headers=bearer(found["secret"])).status_code == 403
    assert reloads == []
    assert httpx.post(f"{page}/reload", headers=bearer(key)).status_code == 200
    assert reloads == [page]


def test_a_key_that_is_removed_is_worthless_at_once(locked: Locked) -> None:
    key = locked.file.add("for-a-day")
    assert say(locked.server.url, START, END, additional_headers=bearer(key)).close_code == 1000
    locked.file.remove("for-a-day")
    assert status(locked.server.url, additional_headers=bearer(key)) == 401


def test_keys_stay_while_their_file_cannot_be_read_which_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key = file.add("tests")
    keys = Keys(file, ShortLived(Signer("a" * 40)))
    whole = file.path.read_bytes()
    file.path.write_text("{broken")
    assert [keys.name(key) for _ in range(3)] == ["tests"] * 3
    file.path.unlink()
    assert keys.name(key) == "tests"
    assert caplog.messages == ["keys not read: those before stay"] * 2
    file.path.write_bytes(whole)
    file.remove("tests")
    assert keys.name(key) is None


def test_one_stream_too_many_of_a_key_is_refused_and_told_when_to_come_again(
    locked: Locked,
) -> None:
    async def two() -> tuple[int, str]:
        headers = bearer(locked.key)
        async with websockets.connect(locked.server.url, additional_headers=headers) as first:
            await first.send(START)
            await first.recv()
            with pytest.raises(websockets.InvalidStatus) as caught:
                await converse(locked.server.url, additional_headers=headers)
            answer = caught.value.response
            return answer.status_code, answer.headers["Retry-After"]

    assert asyncio.run(two()) == (429, "5")
    assert locked.server.is_at_rest()


@pytest.mark.parametrize("address", ["listen", "audio/transcriptions"])
def test_a_file_counts_as_a_stream_from_its_first_byte_on(
    address: str, locked: Locked, caplog: pytest.LogCaptureFixture
) -> None:
    page, headers = locked.server.page, bearer(locked.key)
    callers = locked.server.service.access.callers
    assert wait_for(lambda: callers.full(Caller("phone-app", "")) is None)  # of another test
    host, port = page.removeprefix("http://").split(":")
    upload = http.client.HTTPConnection(host, int(port))
    upload.putrequest("POST", f"/v1/{address}")
    sent = headers | {"Content-Type": "multipart/form-data; boundary=1", "Content-Length": "100"}
    if address == "listen":
        sent["Content-Type"] = "audio/wav"
    for name, value in sent.items():
        upload.putheader(name, value)
    with closing(upload):
        upload.endheaders(b"--1\r\nConte")
        assert wait_for(lambda: callers.full(Caller("phone-app", "")) is not None)
        assert httpx.post(f"{page}/v1/{address}", headers=headers).status_code == 429
    assert wait_for(lambda: callers.full(Caller("phone-app", "")) is None)
    assert not [one for one in caplog.records if one.exc_info], "who hangs up is no fault of ours"


def test_streams_are_counted_by_address_but_not_this_machine_s() -> None:
    callers = Callers(read_settings(max_streams_per_address=1))
    stranger, neighbour = Caller(None, "192.0.2.1"), Caller(None, "127.0.0.1")
    with callers.counted(stranger), callers.counted(neighbour):
        assert callers.full(stranger) == "too_many_streams_of_address"
        assert callers.full(neighbour) is None
    assert callers.full(stranger) is None


def test_who_has_one_public_address_of_ipv6_has_all_of_its_network() -> None:
    callers = Callers(read_settings(max_streams_per_address=1))
    with callers.counted(Caller(None, "2a00:1450:4001:80e::1")):
        assert callers.full(Caller(None, "2a00:1450:4001:80e:ffff::2"))
        assert not callers.full(Caller(None, "2a00:1450:4001:80f::1"))
    with callers.counted(Caller(None, "fd00::1")):
        assert not callers.full(Caller(None, "fd00::2")), "a network of one's own has many people"


@pytest.mark.usefixtures("logging_as_it_was")
def test_no_key_is_written_down(locked: Locked, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(read_settings(log_level="debug"))
    secret = locked.key.split("_", 2)[2]
    say(locked.server.url, START, END, additional_headers=bearer(locked.key))
    status(locked.server.url + "?token=" + locked.key)
    httpx.get(locked.server.page + "/v1/info?token=" + locked.key)
    written = capsys.readouterr().err
    assert "connection refused" in written
    assert secret not in written
    assert secret not in locked.file.path.read_text()
    assert locked.file.path.stat().st_mode & 0o077 == 0


def test_keys_are_made_listed_and_removed_by_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.json"
    assert main(["keys", str(file), "--add", "a"]) == 0
    key = capsys.readouterr().out.strip()
    assert Keys(KeyFile(file), SHORT_LIVED).name(key) == "a"
    assert main(["keys", str(file)]) == 0
    assert capsys.readouterr().out == "a\n"
    assert main(["keys", str(file), "--add", "a"]) == 2
    assert main(["keys", str(file), "--add", "../a"]) == 2
    capsys.readouterr()
    before = file.read_text()
    assert main(["keys", str(file), "--add", "b", "--remove", "c"]) == 2
    assert (capsys.readouterr().out, file.read_text()) == ("", before)
    assert main(["keys", str(file), "--add", "b", "--remove", "a"]) == 0
    assert list(KeyFile(file).read()) == ["b"]
    assert main(["keys", str(file), "--add", "a", "--remove", "b"]) == 0
    assert main(["keys", str(file), "--remove", "a"]) == 0
    assert main(["keys", str(file), "--remove", "a"]) == 2
    assert Keys(KeyFile(file), SHORT_LIVED).name(key) is None


def test_the_file_stays_its_owner_s_and_readable_to_whom_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.add("a")
    owned = (10001, 10002) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    os.chown(file.path, *owned)  # only root gives files away
    for mode, change, name in ((0o644, file.add, "b"), (0o640, file.remove, "b")):
        file.path.chmod(mode)
        change(name)
        found = file.path.stat()
        assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (mode, *owned)

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)  # another user's, in whose folder this one may write
    file.add("b")
    assert sorted(file.read()) == ["a", "b"]
    assert file.path.stat().st_mode & 0o777 == 0o640


def test_a_file_of_keys_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^no file of keys at .*: cortado keys .* makes one$"):
        Keys(KeyFile(tmp_path / "none.json"), SHORT_LIVED)
    other = tmp_path / "other.json"
    for content in ("[]", '{"a": 1}', '{"a": "é"}', '{"a": "\\ud800"}', "[" * 100_000):
        other.write_text(content)
        with pytest.raises(ValueError, match="expected a file made by cortado keys at"):
            Keys(KeyFile(other), SHORT_LIVED)


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, "127.0.0.1"),
        ({"host": "0.0.0.0"}, "127.0.0.1"),
        ({"host": "::1"}, "::1"),
        ({"host": "0.0.0.0", "open": True}, "0.0.0.0"),
        ({"host": "0.0.0.0", "keys": "keys.json"}, "0.0.0.0"),
    ],
)
def test_without_keys_it_stays_on_loopback_and_says_why(
    settings: dict[str, object], host: str
) -> None:
    said: list[str] = []
    assert run_module.bound(read_settings(**settings), said.append).host == host
    assert bool(said) == (settings.get("host", host) != host)
    assert all("--keys" in line and "--open" in line for line in said)


def test_a_variable_that_is_no_setting_is_named() -> None:
    assert unknown_variables(["CORTADO_PORT", "CORTADO_TRACEBACK", "PATH"]) == []
    assert unknown_variables(["CORTADO_PROT"]) == [
        "CORTADO_PROT is no setting; is CORTADO_PORT meant?"
    ]


@needs.openssl
def test_two_flags_make_it_https_and_wss(online: ReferenceRecognizer, tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    self_signed(certificate, key, "localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    trust = ssl.create_default_context(cafile=str(certificate))
    with running(online, tls_certificate=certificate, tls_key=key) as server:
        assert server.page.startswith("https://127.0.0.1:")
        assert httpx.get(f"{server.page}/health", verify=trust).status_code == 200
        heard = say(server.url, START, END, ssl=trust, origin=server.page)
        assert heard.close_code == 1000
        assert status(server.url, ssl=trust, origin=server.page.replace("https", "http")) == 403
    with pytest.raises(ValueError, match="--tls-certificate and --tls-key together"):
        read_settings(tls_certificate=certificate)
