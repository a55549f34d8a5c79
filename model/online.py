"""The one streaming path: serving, transcription and evaluation all take these steps.

A step takes 640 samples (40 ms) of each stream, gives one encoder frame, and lets the attention
advance over it. The state is a value; streams live on dim 0 and do not feel each other.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.ctc import CtcState
from model.encoder import EncoderState
from model.endpoint import RULES, Rule, blanks, head
from model.features import SAMPLE_RATE, SAMPLES_PER_STEP, STEP_SECONDS, FeatureState
from model.listener import Listener
from model.recognizer import Recognizer
from model.suspension import digest, unwrap, wrap
from model.utterances import Utterances
from model.vocabulary import Vocabulary

if TYPE_CHECKING:
    from model.backend import Online

Samples = NDArray[np.float32]

MAX_SYMBOLS_PER_STEP = 2  # 50 characters a second; nobody speaks as fast, a loop would
FLUSH_STEPS = 8  # steps of silence after the end of the input: look-ahead, then late stops
TILE = 8  # rows; a batch is padded to a multiple, so that its size does not change a row's result


class OnlineState(NamedTuple):
    """All that the recogniser remembers of each stream."""

    features: FeatureState
    encoder: EncoderState
    decoder: Any  # DecoderState or CtcState, whichever the recogniser's decoder has


@dataclass(frozen=True)
class Character:
    """A character and when it was heard."""

    text: str
    time: float  # seconds: the end of the encoder frame where the attention stopped


State = TypeVar("State", bound=tuple)  # type: ignore[type-arg]


def select(state: State, rows: Sequence[int] | Tensor) -> State:
    """Return the state of some streams of a larger one."""
    index = torch.as_tensor(rows, dtype=torch.long)
    return _map(state, lambda tensor: tensor[index])


def put(state: State, rows: Sequence[int] | Tensor, part: State) -> State:
    """Return a larger state in which some streams have the state of `part`."""
    index = torch.as_tensor(rows, dtype=torch.long)
    return _merge(state, part, lambda whole, new: whole.index_copy(0, index, new))


def _map(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """Return the nested state with every tensor changed."""
    parts = [change(x) if isinstance(x, Tensor) else _map(x, change) for x in state]
    return _like(state, parts)


def _merge(state: State, other: State, merge: Callable[[Tensor, Tensor], Tensor]) -> State:
    """Return the nested state that `merge` makes of the tensors of two."""
    parts = [
        merge(x, y) if isinstance(x, Tensor) else _merge(x, y, merge)
        for x, y in zip(state, other, strict=True)
    ]
    return _like(state, parts)


def _tensors(state: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors of a nested state."""
    for part in state:
        yield from [part] if isinstance(part, Tensor) else _tensors(part)


def _like(state: State, parts: list[Any]) -> State:
    kind = type(state)
    return kind(parts) if kind is tuple else kind(*parts)


class OnlineRecognizer:
    """A recogniser in serving: frozen weights, states in and out."""

    def __init__(self, recognizer: Recognizer) -> None:
        """Take a recogniser, which is put in evaluation mode.

        Raises:
            ValueError: its decoder needs whole utterances.
        """
        if not recognizer.decoder.online:
            name = type(recognizer.decoder.attention).__name__
            raise ValueError(f"expected a monotonic attention for streams, got {name}")
        self.recognizer = recognizer.eval().requires_grad_(False)
        self.vocabulary = recognizer.config.vocabulary
        self.lookahead_ms = recognizer.lookahead_ms
        self.delay_steps = recognizer.delay_steps
        self.flush_steps = FLUSH_STEPS
        self.name = "reference"
        self.head = head(recognizer)

    @cached_property
    def digest(self) -> bytes:
        """What stands for the backend and the weights."""
        weights = self.recognizer.state_dict().values()
        parts = (weight.detach().cpu().numpy().tobytes() for weight in weights)
        return digest([self.name.encode(), *parts])

    def initial_state(self, streams: int) -> OnlineState:
        """Return the state of streams that have heard nothing."""
        model = self.recognizer
        return OnlineState(
            model.features.initial_state(streams),
            model.encoder.initial_state(streams),
            model.decoder.initial_state(streams),
        )

    @torch.inference_mode()
    def step(self, samples: Tensor, state: OnlineState) -> tuple[Tensor, OnlineState]:
        """Return the symbols (S, MAX_SYMBOLS_PER_STEP) written at the next step, -1 for none.

        Args:
            samples: (S, SAMPLES_PER_STEP) float32 in [-1, 1], the next of each stream.
            state: of the same streams.

        Raises:
            ValueError: samples of another shape.
        """
        streams = len(state.decoder.symbol)
        if samples.shape != (streams, SAMPLES_PER_STEP):
            raise ValueError(
                f"expected samples ({streams}, {SAMPLES_PER_STEP}), got {tuple(samples.shape)}"
            )
        padding = -streams % TILE
        if padding:
            samples = torch.nn.functional.pad(samples, (0, 0, 0, padding))
            state = _merge(state, self.initial_state(padding), lambda x, y: torch.cat([x, y]))
        model = self.recognizer
        features, feature_state = model.features.step(samples, state.features)
        frame, encoder_state = model.encoder.step(features, state.encoder)
        symbols, decoder_state = model.decoder.step(frame, state.decoder, MAX_SYMBOLS_PER_STEP)
        new = OnlineState(feature_state, encoder_state, decoder_state)
        if padding:
            symbols, new = symbols[:streams], _map(new, lambda x: x[:streams])
        return symbols, new

    def stream(self) -> "Stream":
        """Return the bookkeeping of a new stream."""
        return Stream(self.vocabulary, self.recognizer.delay_steps)

    def table(self, streams: int, threads: int | None = None) -> "ReferenceTable":
        """Return the states of `streams` streams that have heard nothing.

        They are stepped by as many of torch's threads; None leaves torch alone, 0 is one.
        """
        return ReferenceTable(self, streams, threads)


class ReferenceTable:
    """The states of streams, one a row, behind the interface of `model.backend.Table`."""

    def __init__(self, online: OnlineRecognizer, streams: int, threads: int | None) -> None:
        self._online = online
        self._state = online.initial_state(streams)
        self._torch_threads = None if threads is None else max(threads, 1)
        self.threads = self._torch_threads or 1
        self.streams = streams
        self._blank = len(online.vocabulary)

    @property
    def bytes_per_stream(self) -> int:
        """Memory of a stream's state."""
        return sum(x.numel() * x.element_size() for x in _tensors(self._online.initial_state(1)))

    def reset(self, rows: NDArray[np.int64]) -> None:
        """Let the streams in (R,) rows have heard nothing."""
        self._state = put(self._state, rows.tolist(), self._online.initial_state(len(rows)))

    def step(self, samples: Samples, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the symbols (R, MAX_SYMBOLS_PER_STEP) that streams write next, -1 for none.

        Raises:
            ValueError: samples of another shape than (R, SAMPLES_PER_STEP).
        """
        if self._torch_threads not in (None, torch.get_num_threads()):
            torch.set_num_threads(self.threads)
        chosen = rows.tolist()
        symbols, part = self._online.step(torch.from_numpy(samples), select(self._state, chosen))
        self._state = put(self._state, chosen, part)
        return symbols.numpy().astype(np.int32)

    def blanks(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return (R,) whether the CTC head hears no character at the streams' last step."""
        decoder, index = self._state.decoder, torch.as_tensor(rows)
        if isinstance(decoder, CtcState):
            heard: NDArray[np.bool_] = (decoder.symbol[index] == self._blank).numpy()
            return heard
        return blanks(decoder.values[index, -1].numpy(), self._online.head)

    def renew(self, rows: NDArray[np.int64]) -> None:
        """Let the decoders of the streams in (R,) rows have written nothing."""
        decoder = self._state.decoder
        fresh = self._online.recognizer.decoder.initial_state(len(rows))
        if not isinstance(decoder, CtcState):  # whose windows have been heard, and stay
            heard = select(decoder, rows.tolist())
            fresh = heard._replace(lstm=fresh.lstm, symbol=fresh.symbol)
        self._state = self._state._replace(decoder=put(decoder, rows.tolist(), fresh))

    def suspend(self, row: int) -> bytes:
        """Return a stream's state as bytes, for `resume` of the same model, here or elsewhere."""
        parts = _tensors(select(self._state, [row]))
        return wrap(self._online.digest, b"".join(x.numpy().tobytes() for x in parts))

    def resume(self, row: int, data: bytes) -> None:
        """Give a row the state that `suspend` returned: the stream goes on to the same bits.

        Raises:
            SuspensionError: it is damaged, or of another model.
        """
        state = bytearray(unwrap(self._online.digest, data, self.bytes_per_stream))
        start = 0

        def read(tensor: Tensor) -> Tensor:
            nonlocal start
            first, start = start, start + tensor.numel() * tensor.element_size()
            return torch.frombuffer(state[first:start], dtype=tensor.dtype).view(tensor.shape)

        self._state = put(self._state, [row], _map(self._online.initial_state(1), read))


class Stream:
    """The bookkeeping of one stream: samples in, steps out, characters with their times."""

    def __init__(self, vocabulary: Vocabulary, delay_steps: int) -> None:
        """Begin a stream for a recogniser's vocabulary and `Recognizer.delay_steps`."""
        self._vocabulary = vocabulary
        self._delay_steps = delay_steps
        self._waiting: deque[Samples] = deque()
        self._buffered = 0  # samples in _waiting
        self._flush_left: int | None = None  # None until the end of the input
        self.received = 0  # samples
        self.steps_taken = 0  # given out by next_step
        self.steps_done = 0  # whose symbols came back

    @property
    def buffered(self) -> int:
        """Samples that wait for a step."""
        return self._buffered

    @property
    def ready(self) -> bool:
        """Whether next_step has something to give."""
        return self._buffered >= SAMPLES_PER_STEP or bool(self._flush_left)

    @property
    def finished(self) -> bool:
        """Whether the input has ended and every step's symbols came back."""
        ended = self._flush_left == 0 and self._buffered == 0
        return ended and self.steps_done == self.steps_taken

    @property
    def position(self) -> float:
        """Seconds of the input on which the characters so far rest."""
        return min(self.steps_done * SAMPLES_PER_STEP, self.received) / SAMPLE_RATE

    def push(self, samples: Samples) -> None:
        """Add any number of samples at 16 kHz.

        Raises:
            ValueError: not one-dimensional float32, or the input has ended.
        """
        if self._flush_left is not None:
            raise ValueError(f"expected no audio after the end, got {len(samples)} samples")
        if samples.ndim != 1 or samples.dtype != np.float32:
            raise ValueError(f"expected (N,) float32 samples, got {samples.shape} {samples.dtype}")
        if len(samples):
            self._waiting.append(samples)
            self._buffered += len(samples)
            self.received += len(samples)

    def end(self) -> None:
        """Say that the input has ended: silence completes the last step, then flushes."""
        if self._flush_left is not None:
            return
        missing = -self._buffered % SAMPLES_PER_STEP
        if missing:
            self._waiting.append(np.zeros(missing, np.float32))
            self._buffered += missing
        self._flush_left = FLUSH_STEPS

    def next_step(self) -> Samples | None:
        """Return the next SAMPLES_PER_STEP samples, or None while there are not as many."""
        if self._buffered >= SAMPLES_PER_STEP:
            step = self._take(SAMPLES_PER_STEP)
        elif self._flush_left:
            self._flush_left -= 1
            step = np.zeros(SAMPLES_PER_STEP, np.float32)
        else:
            return None
        self.steps_taken += 1
        return step

    def suspend(self) -> tuple[list[int | None], Samples]:
        """Return what `resume` takes: counts, and the samples that wait."""
        counts = [self.received, self.steps_taken, self.steps_done, self._flush_left]
        return counts, np.concatenate([np.zeros(0, np.float32), *self._waiting])

    def resume(self, counts: list[int | None], samples: Samples) -> None:
        """Go on where `suspend` was called."""
        received, taken, done, self._flush_left = counts
        self.received, self.steps_taken, self.steps_done = received or 0, taken or 0, done or 0
        self._waiting, self._buffered = deque([samples]), len(samples)

    def _take(self, count: int) -> Samples:
        taken = np.empty(count, np.float32)
        filled = 0
        while filled < count:
            piece = self._waiting.popleft()
            used = min(len(piece), count - filled)
            taken[filled : filled + used] = piece[:used]
            if used < len(piece):
                self._waiting.appendleft(piece[used:])
            filled += used
        self._buffered -= count
        return taken

    def emitted(self, symbols: Sequence[int]) -> list[Character]:
        """Return the characters of a step's symbols; call once for each step, in order."""
        time = step_time(self.steps_done, self._delay_steps)
        self.steps_done += 1
        return [Character(self._vocabulary.characters[s], time) for s in symbols if s >= 0]


def step_time(step: int, delay_steps: int) -> float:
    """Return the time in seconds of what a stream's step, from 0 on, writes.

    It is the end of the encoder frame that the step gives, `delay_steps` before the step's own.
    """
    return round(max(step + 1 - delay_steps, 0) * STEP_SECONDS, 3)


def transcribe(online: "Online", samples: Samples) -> list[Character]:
    """Return the characters of a whole recording at 16 kHz."""
    return next(characters for _, characters in transcribe_many(online, [samples], 1))


def transcribe_many(
    online: "Online",
    recordings: Iterable[Samples],
    streams: int = 64,
    rules: tuple[Rule, ...] = RULES,
) -> Iterator[tuple[int, list[Character]]]:
    """Yield (index, characters) of whole recordings as they finish, `streams` of them at a time."""
    waiting = enumerate(recordings)
    listener = Listener(online, streams, rules=rules)
    live: dict[int, _Recording] = {}  # by row
    free = list(reversed(range(streams)))
    while True:
        fresh = []
        while free and (following := next(waiting, None)) is not None:
            fresh.append(free.pop())
            live[fresh[-1]] = _Recording(online, *following)
        if fresh:
            listener.reset(np.array(fresh))
        if not live:
            return
        rows = list(live)
        steps = [step for row in rows if (step := live[row].stream.next_step()) is not None]
        symbols, ended = listener.step(np.stack(steps), np.array(rows))
        for row, written, end in zip(rows, symbols.tolist(), ended.tolist(), strict=True):
            one = live[row]
            one.hear(written, end)
            if one.stream.finished:
                yield one.index, one.characters
                del live[row]
                free.append(row)


class _Recording:
    """A whole recording on its way."""

    def __init__(self, online: "Online", index: int, samples: Samples) -> None:
        self.index = index
        self.characters: list[Character] = []
        self.stream = online.stream()
        self.stream.push(samples)
        self.stream.end()
        self._utterances = Utterances(online.vocabulary.characters)

    def hear(self, written: list[int], ended: bool) -> None:
        """Take what a step gave."""
        characters, _ = self._utterances.hear(self.stream.emitted(written), ended)
        self.characters += characters
