"""Streaming speech recognition with monotonic chunkwise attention.

`transcribe` gives the text of a recording, and `load` a recogniser for recordings and live streams.
At a server, `stream` gives words while somebody speaks, `connect` messages. `Microphone` is one.
What they need is imported when they are asked for.
"""

from typing import TYPE_CHECKING

__all__ = ["Microphone", "connect", "load", "stream", "transcribe"]

if TYPE_CHECKING:
    from cortado.clients.microphone import Microphone
    from cortado.clients.speech import stream
    from cortado.clients.stream import connect
    from cortado.model.transcription import load, transcribe
else:
    _PLACES = {
        "Microphone": "clients.microphone",
        "connect": "clients.stream",
        "load": "model.transcription",
        "stream": "clients.speech",
        "transcribe": "model.transcription",
    }

    def __dir__():
        return __all__

    def __getattr__(name):
        from importlib import import_module

        if name in _PLACES:
            return getattr(import_module(f"cortado.{_PLACES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
