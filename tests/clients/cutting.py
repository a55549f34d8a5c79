"""A way to a server that can be cut and mended, as networks are."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

ABORT = struct.pack("ii", 1, 0)  # SO_LINGER: a close resets the connection at once


class Way:
    """A port of this machine that leads to another one."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.open = True  # whether new connections are passed on
        self.connections = 0  # that were passed on
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection, in both directions, without a word."""
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Pass nothing on any more."""
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                if not self.open:
                    raise ConnectionRefusedError
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
                near.close()
                continue
            self.connections += 1
            self._ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def way_to(port: int) -> Iterator[Way]:
    """Lead a port to another, until the block is left."""
    way = Way(port)
    try:
        yield way
    finally:
        way.close()
