"""Streaming speech recognition with monotonic chunkwise attention.

`transcribe` gives the text of a recording, `load` a recogniser for recordings and live streams, and
`connect` a stream to a server. What they need is imported when they are asked for.
"""

from typing import TYPE_CHECKING

__all__ = ["connect", "load", "transcribe"]

if TYPE_CHECKING:
    from cortado.clients.stream import connect
    from cortado.model.transcription import load, transcribe
else:

    def __getattr__(name):
        from importlib import import_module

        if name == "connect":
            return import_module("cortado.clients.stream").connect
        if name in __all__:
            return getattr(import_module("cortado.model.transcription"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
