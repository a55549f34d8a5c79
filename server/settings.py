"""The server's settings, each by environment variable (CORTADO_PORT=9000) or by flag.

`cortado serve` makes its flags from these fields (`--port 9000`), and `make reference` the table of
docs/settings.md.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from cortado.server.origin import ANY, is_origin, plain
from cortado.server.protocol.limits import Limits, PositiveSeconds
from cortado.server.signing import LEAST_SECRET

ENV_PREFIX = "CORTADO_"
OTHER_VARIABLES = ("CORTADO_TRACEBACK", "CORTADO_API_KEY")  # of the commands and of clients

Backend = Literal[
    "auto", "fast", "fast-amx", "fast-int8", "fast-bf16", "fast-fp32", "reference", "cuda"
]


HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.IGNORECASE)

Names = Annotated[tuple[str, ...], NoDecode]  # separated by commas


class Settings(Limits, BaseSettings):
    """The settings of `cortado serve`, the protocol's limits among them.

    A flag wins over the environment, the environment over the default.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,
        use_attribute_docstrings=True,
    )

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for every interface."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    """Port to listen on; 0 for any free one."""
    checkpoint: Path | None = None
    """Folder of the checkpoint to serve; the shipped model if not set."""
    keys: Path | None = None
    """File of the API keys that clients need, made by cortado keys; without it the server listens
    on loopback only."""
    open: bool = False
    """Whether to listen on other addresses without keys: anybody may come in."""
    tls_certificate: Path | None = None
    """File of the certificate, with its chain (PEM), for https and wss."""
    tls_key: Path | None = None
    """File of the certificate's private key (PEM)."""
    allowed_hosts: Names = ()
    """Names, separated by commas, by which clients may address the server besides localhost and
    plain addresses, such as speech.example.org; * for any."""
    allowed_origins: Names = ()
    """Web origins, separated by commas, whose pages may open streams and read answers besides the
    server's own, such as https://example.org; * for any."""
    max_streams: Annotated[int, Field(ge=1, le=16_384)] = 2048
    """Streams at once, if the machine can carry as many; one more is refused: too_many_streams."""
    headroom: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of the time that the engine keeps free when it works out from its own speed how many
    streams it can carry; 1 for no such limit."""
    backend: Backend = "auto"
    """Backend that runs the model: auto (the fast CPU backend if it supports the model), or one of
    fast, fast-amx, fast-int8, fast-bf16, fast-fp32, reference, cuda (a GPU)."""
    beam: Annotated[int | None, Field(ge=1, le=256)] = None
    """Hypotheses of the search, 128 if not set, at most 256; 1 for the greedy scan, which is
    cheapest and commits each character at once."""
    hold: Annotated[int | None, Field(ge=0, le=2000)] = None
    """Milliseconds after which the search commits a character at the latest, 560 if not set,
    at most 2000."""
    lm: str | None = None
    """Language model of the search, a file made by cortado lm, or none; the checkpoint's own if not
    set."""
    vad: bool = False
    """Whether a voice activity detector (Silero's) helps to find the ends of utterances, sooner; it
    needs the extra cortado-asr[vad]."""
    max_connections: Annotated[int, Field(ge=1, le=65_536)] = 4096
    """Connections at once; one more is answered HTTP 503."""
    max_connections_per_address: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Connections at once of one address, unless it is this machine's own; one more is answered
    HTTP 503. Public addresses of IPv6 count as one where the first 64 bits are the same."""
    max_streams_per_key: Annotated[int, Field(ge=0)] = 0
    """Streams at once of one API key, files over HTTP among them; 0 for no limit but
    max_streams."""
    max_streams_per_address: Annotated[int, Field(ge=1)] = 64
    """Streams at once of one address, files over HTTP among them, unless it is this machine's
    own. Addresses count as for connections."""
    trusted_proxies: Names = ()
    """Addresses or networks, separated by commas, of proxies that are believed about whom they
    speak for (X-Forwarded-For and X-Forwarded-Proto), such as 10.0.0.0/8; * for any."""
    buffer_seconds: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = 10.0
    """Seconds of audio that may wait for the model, per stream; while they are full the connection
    is not read."""
    max_upload_bytes: Annotated[int, Field(ge=1024, le=2**32)] = 104_857_600
    """Largest file that is taken over HTTP, in bytes; a larger one is answered 413."""
    receive_buffer_bytes: Annotated[int, Field(ge=4096, le=2**26)] = 131_072
    """Bytes of a connection that the system holds unread, so that a paused upload is not megabytes
    ahead."""
    close_timeout_seconds: PositiveSeconds = 5.0
    """Seconds that a client has to answer a close before it is cut off."""
    drain_timeout_seconds: PositiveSeconds = 4.0
    """Seconds that a stopping server waits until its streams are stored and told that it stops."""
    store: str | None = None
    """Where streams with a lost connection are stored, to continue after a restart or at another
    server: the file of an SQLite database, redis://HOST:PORT/0 (the extra cortado-asr[redis]), or
    memory for this process alone; a file in the user's state folder if not set."""
    state_key: SecretStr | None = None
    """Secret that signs suspended and stored streams, 16 characters or more: servers that share it
    resume one another's; if not set, one is made beside the store's file."""
    keep_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = 30.0
    """Seconds that a stream whose connection was lost is kept, if its client asked for it; 0 for
    never."""
    save_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = 5.0
    """Seconds after which a stream that would be kept is saved into the store again, to go on even
    if the server is killed; 0 for never."""
    keep_streams: Annotated[int, Field(ge=0, le=16_384)] = 100
    """Lost streams that are kept at once; the oldest is dropped first."""
    record: Path | None = None
    """Folder in which whole streams are recorded, audio and all, for cortado replay; none if not
    set."""
    record_streams: Annotated[int, Field(ge=1)] = 100
    """Recordings that the folder may hold; no more are made then."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    """CPU threads of the model; 0 for one a core, of the reference backend one."""
    traces: str | None = None
    """Address of an OpenTelemetry collector (OTLP over HTTP), such as
    http://127.0.0.1:4318/v1/traces, which gets a span of each request and each stream (the extra
    cortado-asr[otel]); none if not set."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is logged: debug, info, warning or error."""
    log_format: Literal["text", "json"] = "text"
    """Form of a log line: text, for people, or json, for machines."""

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("expected --tls-certificate and --tls-key together, got one of them")
        return self

    @field_validator("allowed_hosts", "allowed_origins", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not all(name == ANY or HOST.fullmatch(name) for name in names):
            raise ValueError("expected names without scheme and port, as speech.example.org")
        return names

    @field_validator("allowed_origins")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        if not all(origin == ANY or is_origin(origin) for origin in origins):
            raise ValueError("expected origins with their scheme, as https://example.org")
        return tuple(origin if origin == ANY else plain(origin) for origin in origins)

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        try:
            networks = [ip_network(one, strict=False) for one in addresses if one != ANY]
        except ValueError:
            raise ValueError("expected addresses or networks, as 10.0.0.0/8") from None
        # uvicorn knows * alone, and no network with bits of a host
        return (ANY,) if ANY in addresses else tuple(map(str, networks))

    @field_validator("traces")
    @classmethod
    def _check_traces(cls, collector: str | None) -> str | None:
        if collector and not collector.startswith(("http://", "https://")):
            raise ValueError("expected an address that begins with http:// or https://")
        return collector

    @field_validator("state_key")
    @classmethod
    def _check_state_key(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret and len(secret.get_secret_value()) < LEAST_SECRET:
            raise ValueError(f"expected {LEAST_SECRET} characters or more")
        return secret


def read_settings(**flags: object) -> Settings:
    """Return the settings of the environment with `flags` over them; a flag of None is not given.

    Raises:
        ValueError: one cannot be used; the message names it, what was expected and what was got.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # a check of several settings together
            raise ValueError(str(first["ctx"]["error"])) from None
        name = str(first["loc"][0])
        named = f"--{flag(name)}" if name in given else ENV_PREFIX + name.upper()
        secret = Settings.model_fields[name].annotation == SecretStr | None
        got = "a secret that is not shown" if secret else repr(first["input"])
        said = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        said = said.partition(", unable to")[0]
        raise ValueError(f"{named}: {said[:1].lower()}{said[1:]}, got {got}") from None


def listed() -> dict[str, FieldInfo]:
    """Return the settings by name, in order: where to listen first, the protocol's limits last."""
    own = [name for name in Settings.model_fields if name not in Limits.model_fields]
    return {name: Settings.model_fields[name] for name in (*own, *Limits.model_fields)}


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """Return a line for each variable that looks like a setting and is none."""
    known = [ENV_PREFIX + name.upper() for name in Settings.model_fields]
    lines = []
    for name in sorted(environment):
        if name.startswith(ENV_PREFIX) and name not in (*known, *OTHER_VARIABLES):
            close = get_close_matches(name, known, 1)
            lines.append(f"{name} is no setting" + (f"; is {close[0]} meant?" if close else ""))
    return lines


def flag(name: str) -> str:
    """Return the flag of the setting `name`, without its dashes."""
    return name.replace("_", "-")
