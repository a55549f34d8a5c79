"""The one streaming path: serving, transcription and evaluation all take these steps.

A step takes 640 samples (40 ms) of each stream, gives one encoder frame, and lets the attention
advance over it. The state is a value; streams live on dim 0 and do not feel each other.
"""

from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cortado.model.config import MAX_SYMBOLS_PER_STEP
from cortado.model.decoder.ctc import CtcState
from cortado.model.decoder.decoder import AttentionDecoder, Decoder
from cortado.model.features.framing import SAMPLES_PER_STEP
from cortado.model.features.speaker import check_streams
from cortado.model.layer import changed, merged, put, select, tensors
from cortado.model.recognizer import Recognizer
from cortado.model.search.beam import GREEDY, Beam, flush_steps, searching, told_apart
from cortado.model.search.beam_decoder import Search
from cortado.model.streaming.endpoint import blanks, head
from cortado.model.streaming.recordings import transcribe as transcribe
from cortado.model.streaming.recordings import transcribe_many as transcribe_many
from cortado.model.streaming.stream import BATCH
from cortado.model.streaming.stream import FLUSH_STEPS as FLUSH_STEPS
from cortado.model.streaming.stream import Character as Character
from cortado.model.streaming.stream import Samples as Samples
from cortado.model.streaming.stream import Stream as Stream
from cortado.model.streaming.stream import step_time as step_time
from cortado.model.streaming.suspension import digest, unwrap, wrap

TILE = 8  # rows that are stepped at once, always: libraries sum in another order for other numbers


class OnlineState(NamedTuple):
    """All that the recogniser remembers of each stream."""

    features: Any  # of the log-mel frames and of their normalisation
    encoder: Any  # of each layer
    decoder: Any  # DecoderState, SearchState or CtcState, whichever the decoder has


class OnlineRecognizer:
    """A recogniser in serving: frozen weights, states in and out."""

    def __init__(self, recognizer: Recognizer, beam: Beam = GREEDY) -> None:
        """Take a recogniser, which is put in evaluation mode.

        Args:
            recognizer: what is heard with.
            beam: how streams are searched; the CTC head alone has its greedy path.

        Raises:
            ValueError: its decoder needs whole utterances, or its features whole speakers.
        """
        check_streams(recognizer.config)
        if not recognizer.decoder.online:
            name = type(recognizer.decoder.attention).__name__
            raise ValueError(f"expected a monotonic attention for streams, got {name}")
        self.recognizer = recognizer.eval().requires_grad_(False)
        self.vocabulary = recognizer.config.vocabulary
        self.lookahead_ms = recognizer.lookahead_ms
        self.delay_steps = recognizer.delay_steps
        self.beam = GREEDY
        self.decoder: Decoder | Search = self.recognizer.decoder
        if beam.width > 1 and isinstance(recognizer.decoder, AttentionDecoder):
            self.beam = beam
            self.decoder = Search(recognizer.decoder, beam, MAX_SYMBOLS_PER_STEP)
        self.flush_steps = flush_steps(self.beam)
        self.batch = BATCH
        self.name = searching("reference", self.beam)
        self.head = head(recognizer)

    @cached_property
    def digest(self) -> bytes:
        """What stands for the backend and the weights."""
        weights = self.recognizer.state_dict().values()
        parts = (weight.detach().cpu().numpy().tobytes() for weight in weights)
        return digest([told_apart(self.name, self.beam), *parts])

    def initial_state(self, streams: int) -> OnlineState:
        """Return the state of streams that have heard nothing."""
        model = self.recognizer
        return OnlineState(
            model.features.initial_state(streams),
            model.encoder.initial_state(streams),
            self.decoder.initial_state(streams),
        )

    @torch.inference_mode()
    def step(self, samples: Tensor, state: OnlineState) -> tuple[Tensor, OnlineState]:
        """Return the symbols (S, n) written at the next step, -1 for none.

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
            state = merged(state, self.initial_state(padding), lambda x, y: torch.cat([x, y]))
        symbols, new = self.step_rows(samples[:TILE], changed(state, lambda x: x[:TILE]))
        for first in range(TILE, len(samples), TILE):
            tile = slice(first, first + TILE)
            more, after = self.step_rows(samples[tile], changed(state, itemgetter(tile)))
            symbols = torch.cat([symbols, more])
            new = merged(new, after, lambda x, y: torch.cat([x, y]))
        if padding:
            symbols, new = symbols[:streams], changed(new, lambda x: x[:streams])
        return symbols, new

    def step_rows(self, samples: Tensor, state: OnlineState) -> tuple[Tensor, OnlineState]:
        """Return the symbols and the new state of streams, whose number has a say in the bits."""
        model = self.recognizer
        features, feature_state = model.features.step(samples, state.features)
        frames, encoder_state = model.encoder.step(features, state.encoder)
        symbols, decoder_state = self.decoder.step(frames, state.decoder)
        return symbols[:, 0], OnlineState(feature_state, encoder_state, decoder_state)

    def stream(self) -> Stream:
        """Return the bookkeeping of a new stream."""
        return Stream(self.vocabulary, self.recognizer.delay_steps, self.flush_steps)

    def table(self, streams: int, threads: int | None = None) -> "ReferenceTable":
        """Return the states of `streams` streams that have heard nothing.

        They are stepped by as many of torch's threads; None leaves torch alone, 0 is one.
        """
        return ReferenceTable(self, streams, threads)


class ReferenceTable:
    """The states of streams, one a row, behind the interface of `model.backends.choice.Table`."""

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
        return sum(x.numel() * x.element_size() for x in tensors(self._online.initial_state(1)))

    def _index(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(rows)

    def _put(self, rows: Tensor, part: OnlineState) -> None:
        self._state = put(self._state, rows, part)

    def reset(self, rows: NDArray[np.int64]) -> None:
        """Let the streams in (R,) rows have heard nothing."""
        self._put(self._index(rows), self._online.initial_state(len(rows)))

    def step(self, samples: Samples, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the symbols (R, n) that streams write next, -1 for none.

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

    def renew(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Let the decoders of the streams in (R,) rows have written nothing.

        Return the symbols (R, n) that were undecided, as `step` does.
        """
        index = self._index(rows)
        heard = select(self._state, index)
        rest = np.full((len(rows), 0), -1, np.int32)
        if isinstance(self._online.decoder, Search):
            rest, fresh = self._online.decoder.renewed(heard.decoder)
        else:
            fresh = self._online.decoder.initial_state(len(rows))
            if not isinstance(fresh, CtcState):  # whose windows have been heard, and stay
                fresh = heard.decoder._replace(lstm=fresh.lstm, symbol=fresh.symbol)
        self._put(index, heard._replace(decoder=fresh))
        return rest

    def suspend(self, row: int) -> bytes:
        """Return a stream's state as bytes, for `resume` of the same model, here or elsewhere."""
        parts = tensors(select(self._state, [row]))
        return wrap(self._online.digest, b"".join(x.cpu().numpy().tobytes() for x in parts))

    def resume(self, row: int, data: bytes) -> None:
        """Give a row the state that `suspend` returned: the stream goes on to the same bits.

        Raises:
            SnapshotError: it is damaged, or of another model.
        """
        state = bytearray(unwrap(self._online.digest, data, self.bytes_per_stream))
        start = 0

        def read(tensor: Tensor) -> Tensor:
            nonlocal start
            first, start = start, start + tensor.numel() * tensor.element_size()
            kept = torch.frombuffer(state[first:start], dtype=tensor.dtype)
            return kept.view(tensor.shape).to(tensor.device)

        self._put(self._index(np.array([row])), changed(self._online.initial_state(1), read))
