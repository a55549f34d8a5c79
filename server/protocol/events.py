"""The events of a `ServerProtocol`: its state, what the client sent, and how to close."""

from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cortado.server.protocol.messages import (
    End,
    ErrorCode,
    Flush,
    KeepAlive,
    Resume,
    Start,
    Suspend,
)

FINAL, SUSPENDED, DISCONNECTED = "final", "suspended", "disconnected"  # endings without an error
# Endings after which a client may come back: its connection is gone or seems to be, or its server.
LOST = {
    DISCONNECTED,
    ErrorCode.IDLE_TIMEOUT,
    ErrorCode.SLOW_CLIENT,
    ErrorCode.TAKEN_OVER,
    ErrorCode.SHUTTING_DOWN,
}


class State(Enum):
    """How far a conversation has come."""

    OPENING = auto()  # the first message is awaited
    ACCEPTING = auto()  # `start` or `resume` has come; the shell accepts it or fails
    STREAMING = auto()  # audio is awaited
    DRAINING = auto()  # `end` or `suspend` has come; the last characters are awaited
    CLOSING = auto()  # the stream is released; what is left is sent
    CLOSED = auto()


class Audio(NamedTuple):
    """A binary message, decoded."""

    samples: NDArray[np.float32]  # (N,) in [-1, 1], at the rate of `start`


class WhenProcessed(NamedTuple):
    """A request for `Processed` once all whole steps of the audio so far are done."""


class Processed(NamedTuple):
    """All whole steps of the audio up to a `WhenProcessed` are done."""

    awaits_commit: bool  # a character was heard and is not committed yet


Event = Start | Resume | Audio | KeepAlive | Flush | WhenProcessed | End | Suspend


class Close(NamedTuple):
    """How a connection is to be closed (RFC 6455, section 7.4)."""

    code: int
    reason: str = ""


class ServerFacts(NamedTuple):
    """What `ready` says of the server."""

    session: str
    model: str
    step_ms: int
    lookahead_ms: int
