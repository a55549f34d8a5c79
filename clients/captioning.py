"""Live captions of a microphone in the terminal: text, level, delay, and utterances with times."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cortado.clients.microphone import SILENCE, Microphone
from cortado.clients.speech import send_all
from cortado.clients.stream import Stream, connect
from cortado.model.emission import Character
from cortado.server.protocol.messages import Chars, Endpoint

METER = 20  # columns of the level
REDRAWS = 12  # a second
QUIET = -60.0  # dB of full scale, where the meter begins

Utterance = tuple[Character, ...]


class Captions:
    """What was said so far, and how it looks."""

    def __init__(self, microphone: Microphone, console: Console) -> None:
        self.microphone, self.console = microphone, console
        self.stream: Stream | None = None
        self.utterances: list[Utterance] = []  # that have ended
        self.delay: float | None = None  # seconds from sound to text, of the latest characters
        self._open: list[Character] = []

    def add(self, message: Chars | Endpoint) -> None:
        """Add what the server said."""
        if isinstance(message, Endpoint):
            return self.end_utterance()
        self._open += message.characters()
        self.delay = max(0.0, self.microphone.seconds - message.position)
        if not self.console.is_terminal:
            begins = self.utterances and len(self._open) == len(message.text)
            self._write(f"\n{message.text.lstrip()}" if begins else message.text)
        return None

    def end_utterance(self) -> None:
        """End the utterance; in a terminal it goes up, with the time at which it began."""
        said, self._open = self._open, []
        if said:
            self.utterances.append(tuple(said))  # first: a terminal that was closed takes no text
        text = _text(said)
        if self.console.is_terminal and text:
            line = Text.assemble((f"{_clock(said[0].time)}  ", "dim"), text)
            self.console.print(line)

    def __rich__(self) -> RenderableType:
        return Group(Text(_text(self._open) or " ", style="bold"), self._status())

    def _status(self) -> Table:
        """Return the line below the text."""
        is_lost = self.stream is not None and self.stream.state == "lost"
        state = Text("connecting again", style="yellow") if is_lost else Text("listening")
        delay = "" if self.delay is None else f"{self.delay:.1f} s behind"
        row = Table.grid(padding=(0, 2))
        clock = _clock(self.microphone.seconds)
        bar = meter(self.microphone.level, self.console.options.ascii_only)
        row.add_row(clock, bar, state, delay, "Ctrl-C ends")
        return row

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the latest text and a line of status below it, in a terminal."""
        if self.console.is_terminal:
            with Live(self, console=self.console, refresh_per_second=REDRAWS, transient=True):
                yield
        else:
            yield
            self._write("\n")

    def _write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()


def meter(level: float, ascii_only: bool = False) -> Text:
    """Return a bar for a level in dB of full scale."""
    loud, quiet = "#-" if ascii_only else "█░"
    share = (max(level, QUIET) - QUIET) / -QUIET
    full = round(min(share, 1.0) * METER)
    colour = "red" if level > -3 else "green"
    number = "silence" if level <= SILENCE else f"{level:.0f} dB"
    return Text.assemble((loud * full, colour), (quiet * (METER - full), "dim"), f" {number:>7}")


async def caption(
    captions: Captions, url: str, tell: Callable[[str], None], phrases: Sequence[str] = ()
) -> None:
    """Write what the microphone of `captions` hears to its console, until Ctrl-C.

    A console that is no terminal gets the text alone, each utterance on a line of its own.

    Args:
        captions: which grow.
        url: of the server's stream, ws:// or wss://.
        tell: called with what the speaker should know, a line at a time.
        phrases: that are likely to be said.

    Raises: StreamError if the server is not there, refuses, or cannot go on.
    """
    microphone, console = captions.microphone, captions.console
    async with connect(url, sample_rate=microphone.sample_rate, phrases=phrases) as stream:
        captions.stream = stream
        if not console.is_terminal:
            tell("Speak; Ctrl-C ends.")
        sending = asyncio.create_task(send_all(stream, microphone))
        try:
            with _first_interrupt(microphone.stop), captions.shown():
                try:
                    async for message in stream.messages():
                        captions.add(message)
                    await sending  # raises what is wrong with the microphone
                finally:
                    captions.end_utterance()  # what was said stays, however the stream ends
        finally:
            microphone.close()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    if microphone.overrun:
        tell("The server was too slow for live speech; the text ends where it fell behind.")


@contextmanager
def _first_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C call `stop` while the block runs; the second interrupts as ever."""
    loop = asyncio.get_running_loop()

    def forget() -> None:
        with suppress(NotImplementedError):  # Windows: Ctrl-C interrupts at once
            loop.remove_signal_handler(signal.SIGINT)

    def first() -> None:
        forget()
        stop()

    with suppress(NotImplementedError):
        loop.add_signal_handler(signal.SIGINT, first)
    try:
        yield
    finally:
        forget()


def _text(characters: list[Character]) -> str:
    return "".join(one.text for one in characters).strip()


def _clock(seconds: float) -> str:
    """Return minutes:seconds, with hours where there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
