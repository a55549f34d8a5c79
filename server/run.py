"""`cortado serve`: one process on one socket, until it is stopped."""

import asyncio
import errno
import logging
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import uvicorn

from cortado.server import logs
from cortado.server.access import Refused
from cortado.server.app import create_app
from cortado.server.callers import is_loopback
from cortado.server.connection_limits import Connections
from cortado.server.service import Service, load
from cortado.server.settings import Settings, unknown_variables
from cortado.server.transport import MAX_HEADER_BYTES, bounded

WORDS_BYTES = 65_536  # over max_message_bytes; up to there a message is refused with words


LOOPBACK = "127.0.0.1"
SPARE_DESCRIPTORS = 128  # for all that is of no connection
EXIT_ENGINE_FAILED = 70  # EX_SOFTWARE of sysexits.h; a supervisor starts the server again
EXIT_CUT_SHORT = 128  # and the number of the signal, as shells count
LOOK_SECONDS = 0.5  # between two looks at the engines

logger = logging.getLogger(__name__)


def run(settings: Settings, announce: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code, which is 0 for an orderly end.

    It is EXIT_ENGINE_FAILED if the engine failed, and EXIT_CUT_SHORT and the signal's number if a
    second signal came before the end. `announce` is given the line that says where. A step or a
    load of the model that has not ended by then ends with the process.

    Raises:
        ValueError: the address cannot be listened on, or the checkpoint or the certificate cannot
            be used.
    """
    for line in unknown_variables(os.environ):
        announce(f"cortado: {line}")
    settings = bound(settings, announce)
    check_tls(settings)
    allow_descriptors(descriptors(settings), announce)
    with listen(settings) as listener:
        logs.configure(settings)
        server = Server(load(settings), announce)
        with said_of(settings):  # another server may have bound the address as well, and been first
            listener.listen()
        server.run(sockets=[listener])
    if server.service.computes:
        leave(server.exit_code)
    return server.exit_code


def leave(exit_code: int) -> NoReturn:
    """End the process in the midst of a model's step or of its load.

    Python's own end would wait for a step in some threads; in others, it aborts the process.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def check_tls(settings: Settings) -> None:
    """Look whether the files of a certificate and its key can be used, if they are set.

    Raises: ValueError if they cannot.
    """
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None or key is None:
        return
    for name, path in (("tls-certificate", certificate), ("tls-key", key)):
        if not path.is_file():
            raise ValueError(f"--{name}: expected a file (PEM), got {path}, which is none")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        expected = "--tls-certificate and --tls-key: expected a certificate and its key (PEM)"
        raise ValueError(f"{expected}, got {certificate} and {key}: {error}") from error


def descriptors(settings: Settings) -> int:
    """Return how many files and sockets may be open: an upload has one of each."""
    recorded = min(settings.record_streams, settings.max_streams) if settings.record else 0
    return 2 * settings.max_connections + recorded + SPARE_DESCRIPTORS


def allow_descriptors(count: int, announce: Callable[[str], None]) -> None:
    """Let the process have so many files and sockets, or say that it may not.

    With none left, nobody comes in, the health check neither; the usual limit is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    granted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
    if granted < count:
        announce(
            f"cortado: this process may have {granted} files and sockets, and its settings"
            f" need {count}: lower max_connections, or raise the limit (ulimit -n)"
        )


def bound(settings: Settings, announce: Callable[[str], None]) -> Settings:
    """Return the settings with the address to listen on: loopback, if anybody could come in."""
    stays_here = settings.host == "localhost" or is_loopback(settings.host)
    if settings.keys or settings.open or stays_here:
        return settings
    announce(
        f"cortado: without keys the server listens on {LOOPBACK} in place of {settings.host}:"
        " name a file of keys (--keys, made by cortado keys), or let anybody in (--open)"
    )
    return settings.model_copy(update={"host": LOOPBACK})


def listen(settings: Settings) -> socket.socket:
    """Return a socket bound to the address of `settings`.

    Raises: ValueError if the address is taken or is not this machine's.
    """
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        got = f"{settings.host} port {settings.port}: {error}"
        raise ValueError(f"expected an address to listen on, got {got}") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        with said_of(settings):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
            listener.bind(address)
    except ValueError:
        listener.close()
        raise
    return listener


@contextmanager
def said_of(settings: Settings) -> Iterator[None]:
    """Let an error of the socket that listens be the mistake of who chose its address."""
    try:
        yield
    except OSError as error:
        where = f"{settings.host} port {settings.port}"
        if error.errno == errno.EADDRINUSE:
            advice = "is taken by another program: stop it, or choose another with --port 8001"
            advice += " (with make: make serve ARGS='--port 8001')"
            raise ValueError(f"{where} {advice}") from error
        raise ValueError(f"expected to listen on {where}, got: {error.strerror}") from error


def address(listener: socket.socket, scheme: str = "http") -> str:
    """Return the URL under which a browser on this machine finds `listener`."""
    host, port = listener.getsockname()[:2]
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{here}]:{port}" if ":" in here else f"{scheme}://{here}:{port}"


class Server(uvicorn.Server):
    """Uvicorn, which says where it listens and lets streams take leave before it stops."""

    def __init__(self, service: Service, announce: Callable[[str], None]) -> None:
        self.service = service
        self.exit_code = 0
        self._leaving: asyncio.Task[None] | None = None  # the streams, once the end has begun
        self._announce = announce
        super().__init__(_config(service))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and say where."""
        await super().startup(sockets)
        if self.started and sockets:
            with suppress(ValueError, RuntimeError, NotImplementedError):  # in threads, on Windows
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGHUP, self._reload)
            self._say_where(sockets[0])
            self._watching = asyncio.create_task(self._watch())

    def _reload(self) -> None:
        """Read the model again, at SIGHUP."""
        self._reloading = asyncio.create_task(self._try_to_reload())

    async def _try_to_reload(self) -> None:
        try:
            await self.service.reload()
        except (ValueError, Refused) as error:
            logger.error("model not reloaded", extra={"reason": str(error)})
        except Exception:
            logger.exception("model not reloaded")

    def _say_where(self, listener: socket.socket) -> None:
        """Announce the address, and log what is served there."""
        where = address(listener, "https" if self.config.is_ssl else "http")
        self._announce(f"Cortado listens: open {where} (Ctrl-C stops it)")
        engine = self.service.engine
        facts = {
            "address": where,
            "model": self.service.model_name,
            "backend": engine.recognizer.name,
            "capacity": engine.capacity.streams,
            "keys": self.service.access.keys is not None,
        }
        logger.info("server started", extra=facts)

    async def _watch(self) -> None:
        """End the process once an engine will never step a stream again.

        Two looks in a row have to find that: where all of the process was paused, the first may
        come before the end of a step that is all right.
        """
        failure: str | None = None
        while failure is None or self.service.failure is None:
            failure = self.service.failure
            await asyncio.sleep(LOOK_SECONDS)
        logger.critical("engine failed: the process ends", extra={"reason": failure})
        self.exit_code = EXIT_ENGINE_FAILED
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end at the first signal; cut it short at the second, of either kind.

        Uvicorn would keep the first and raise it again after the end: the process would die of
        it, which container engines, systemd and Ray report as a failure.
        """
        if self.should_exit:
            self.force_exit = True
            self.exit_code = self.exit_code or EXIT_CUT_SHORT + sig
            if self._leaving:
                self._leaving.get_loop().call_soon_threadsafe(self._leaving.cancel)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the streams, then stop; uvicorn alone would cut them off without a word."""
        self._watching.cancel()
        if not self.force_exit:  # by a second signal before the end began
            self._leaving = asyncio.create_task(self.service.drain())
            with suppress(asyncio.CancelledError):  # by the second signal
                await self._leaving
        await super().shutdown(sockets)


def _config(service: Service) -> uvicorn.Config:
    settings = service.settings

    http, websocket = bounded(Connections(settings, service.metrics))
    return uvicorn.Config(
        create_app(service),
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        http=http,
        ws=websocket,
        ws_max_size=settings.max_message_bytes + WORDS_BYTES,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        ws_ping_interval=None,  # docs/protocol.md says why
        ws_per_message_deflate=False,  # speech does not shrink, and zeros could swell
        timeout_graceful_shutdown=1,  # the streams are told before, in drain_timeout_seconds
        log_config=None,
        access_log=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        server_header=False,
    )
