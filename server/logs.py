"""How the server logs: one line an event, with its facts as fields; never audio or text."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from cortado.server.settings import Settings

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NOISY = ("uvicorn", "websockets", "asyncio")  # a line for each connection, with its address


def configure(settings: Settings) -> None:
    """Send the log to stderr in the form and from the severity that are set."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    level = settings.log_level.upper()
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """A line for people: when, how severe, what, and the facts."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without any traceback."""
        facts = "".join(f" {name}={value}" for name, value in _facts(record).items())
        return super().formatMessage(record) + facts


class JsonFormatter(logging.Formatter):
    """A line for machines: one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object, with a traceback as text if there is one."""
        content = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        } | _facts(record)
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str)
