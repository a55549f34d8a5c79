"""Conversations in a door's dialect without sockets: what its client is sent."""

import json
from typing import Any

from cortado.model.captions import Placed
from cortado.server.protocol.dialect import Dialect
from cortado.server.protocol.events import Audio, Event
from cortado.server.protocol.limits import Limits
from cortado.server.protocol.messages import ErrorCode, Resume, Start
from cortado.server.protocol.server import ServerProtocol
from cortado.tests.server.protocol.talk import FACTS


class Conversation:
    """A protocol whose client speaks `dialect`."""

    def __init__(self, dialect: Dialect, **limits: Any) -> None:
        self.talk = ServerProtocol(Limits(**limits), 0.0, dialect)
        self.events: list[Event] = []
        self.flushed = 0  # times that the engine answered a flush

    def say(self, *frames: str | bytes | dict[str, Any]) -> list[Any]:
        """Receive frames; return what they were answered with at once."""
        for frame in frames:
            data = json.dumps(frame) if isinstance(frame, dict) else frame
            self.talk.receive_data(data, 0.0)
            for event in self.talk.events_received():
                self.events.append(event)
                if isinstance(event, Start):
                    self.talk.accept(event, FACTS, 0.0, None, recorded=False)
                elif isinstance(event, Resume):
                    self.talk.fail(ErrorCode.UNKNOWN_STREAM, "expected a stream, got none")
            self.talk.events_handled(0.0)
        return self.read()

    def read(self) -> list[Any]:
        """Return all that the client is sent, parsed."""
        found = []
        while (data := self.talk.data_to_send(0.0)) is not None:
            found.append(json.loads(data))
            self.talk.data_sent()
        return found

    def write(
        self, text: str, first: float, position: float | None = None, others: Placed = ()
    ) -> list[Any]:
        """Let the engine write text, a letter each 40 ms, 1 % less sure; return what is sent."""
        times = [round(first + 0.04 * k, 3) for k in range(len(text))]
        confidences = [round(1 - 0.01 * k, 3) for k in range(len(text))]
        self.talk.send_characters(text, times, confidences, position or times[-1], others)
        return self.read()

    def end_utterance(self, number: int, start: float, end: float, position: float) -> list[Any]:
        self.talk.send_endpoint(number, start, end, position)
        return self.read()

    @property
    def audio(self) -> list[float]:
        """The samples that the engine was given."""
        return [
            float(x) for event in self.events if isinstance(event, Audio) for x in event.samples
        ]

    @property
    def kinds(self) -> list[str]:
        """The types of the events but audio."""
        return [type(event).__name__ for event in self.events if not isinstance(event, Audio)]
