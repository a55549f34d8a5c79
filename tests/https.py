"""A small HTTP server in a thread, and certificates that nobody else has signed."""

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    """It writes no line for each request."""

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def answering(
    handler: Callable[[Any, Any, ThreadingHTTPServer], BaseHTTPRequestHandler],
    tls: ssl.SSLContext | None = None,
) -> Iterator[int]:
    """Answer by a handler until the block is left, by https if told so; yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def self_signed(certificate: Path, key: Path, name: str, *options: str) -> None:
    """Write a certificate of two days for a name, and its key."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        [*command.split(), "-subj", f"/CN={name}", *options, *files],
        check=True,
        capture_output=True,
    )
