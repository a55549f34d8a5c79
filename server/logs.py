"""How the server logs: one line an event, with its facts as fields; no audio, text or secret."""

import logging
import sys
from collections import Counter
from time import monotonic

import structlog
from structlog.types import EventDict, WrappedLogger

from cortado.server.settings import Settings

# A line for each connection, with its address, in which a key may be.
NOISY = ("uvicorn", "websockets", "asyncio", "httpx", "httpcore")
FLOOD_LINES, FLOOD_SECONDS = 20, 10.0  # of one event, in so long: what strangers cause is bounded


def configure(settings: Settings) -> None:
    """Send the log to stderr in the form and from the severity that are set."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(settings.log_format))
    handler.addFilter(FloodFilter())
    level = settings.log_level.upper()
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


def formatter(form: str) -> logging.Formatter:
    """Return the formatter of lines for people (`text`) or for machines (`json`)."""
    machine = form == "json"
    renderer = (
        structlog.processors.JSONRenderer(default=str)
        if machine
        else structlog.dev.ConsoleRenderer(
            colors=False,
            pad_event_to=0,
            sort_keys=False,
            # The default shows local variables, audio among them, and takes seconds for it.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,  # the session that speaks
            structlog.stdlib.ExtraAdder(),
            _without_ray,
            structlog.stdlib.add_log_level,
            *([structlog.stdlib.add_logger_name] if machine else []),
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *([structlog.processors.format_exc_info] if machine else [_for_people]),
            renderer,
        ],
    )


def _without_ray(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Return an event without the field that Ray, once it is imported, adds to every line."""
    event.pop("_ray_timestamp_ns", None)
    return event


def _for_people(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Return an event as the renderer for people expects it, without what a terminal obeys.

    A field may be a stranger's, such as an address that a proxy has passed on.
    """
    said = event.pop("event")
    fields = {name: _printable(value) for name, value in event.items()}
    return {"timestamp": fields.pop("time"), "event": said, **fields}


def _printable(value: object) -> object:
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)


class FloodFilter(logging.Filter):
    """Lets so many lines of one event through in some seconds, and counts the others.

    The event's next line that is written says how many they were.
    """

    def __init__(self) -> None:
        super().__init__()
        self._until = 0.0
        self._lines: Counter[str] = Counter()  # of these seconds
        self._omitted: Counter[str] = Counter()  # of which no line has said so yet

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written."""
        now = monotonic()
        if now > self._until:
            self._until = now + FLOOD_SECONDS
            self._lines.clear()
        self._lines[record.msg] += 1
        if self._lines[record.msg] > FLOOD_LINES:
            self._omitted[record.msg] += 1
            return False
        if omitted := self._omitted.pop(record.msg, 0):
            record.omitted = omitted
        return True
