"""Lossless shorten streams (T. Robinson 1994, versions 1 to 3) as integer samples.

SPHERE files of the Wall Street Journal discs hold such streams. A stream is a run of functions:
a block of one channel, predicted from the samples before it and corrected by Rice codes, or a
change of block size or of the lowest bits that all samples lack. Nothing marks an error, so a
value that no encoder writes (a sample beyond its width, a filter beyond its order) is one.
"""

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

MAGIC = b"ajkg"
VERSIONS = range(1, 4)
MAX_CHANNELS = 8
MAX_BLOCK = 65_535  # samples
MAX_ORDER = 1024  # of a linear filter
MAX_MEANS = 32_768  # blocks whose mean predicts the next one's
SAMPLES_PER_BYTE = 512  # silence in blocks of 256 samples gives 410; a bomb gives up to 105,000
PIECE = 1 << 16  # samples at least, in an array that `blocks` yields

# Types of sample: their smallest and largest value, and what stands for silence.
TYPES = {
    0: (-128, 127, 0),  # mu-law codes, by loudness
    1: (-(1 << 7), (1 << 7) - 1, 0),
    2: (0, (1 << 8) - 1, 1 << 7),
    3: (-(1 << 15), (1 << 15) - 1, 0),  # in the order high byte, low byte
    4: (0, (1 << 16) - 1, 1 << 15),
    5: (-(1 << 15), (1 << 15) - 1, 0),  # low byte, high byte
    6: (0, (1 << 16) - 1, 1 << 15),
    8: (-129, 127, 0),  # mu-law codes, both zeros kept
}
MULAW_TYPES = (0, 8)

_DIFF3, _QUIT, _BLOCKSIZE, _BITSHIFT, _QLPC, _ZERO, _VERBATIM = 3, 4, 5, 6, 7, 8, 9
_HISTORY = 3  # samples that the fixed predictors look back
_QUANTUM = 5  # bits after the point of a filter's coefficients
_MAX_SHIFT = 32  # encoders of version 1 write it for a block of zeros
_LARGEST = 24  # bits of a code; 16-bit samples need 21

# Places in the state of a stream.
_BIT, _BLOCK, _SHIFT, _CHANNEL, _FILLED = range(5)

# What the compiled loops return; all but the first two are errors.
_FULL, _ENDED, _CUT, _TOO_LARGE, _NO_FUNCTION, _BAD_BLOCK, _BAD_SHIFT, _BAD_ORDER, _BAD_SAMPLE = (
    *range(2),
    *range(-1, -8, -1),
)
_ERRORS = {
    _CUT: "a whole stream, got one that is cut",
    _TOO_LARGE: f"codes below 2^{_LARGEST}, got a larger one",
    _NO_FUNCTION: "a function from 0 to 9, got another",
    _BAD_BLOCK: "a block no larger than the first, got another size",
    _BAD_SHIFT: f"a shift of at most {_MAX_SHIFT} bits (none in mu-law), got more",
    _BAD_ORDER: "a filter within the stated order, got a longer one",
    _BAD_SAMPLE: "samples within their width, got larger ones",
}


class Shorten:
    """A shorten stream: `kind` of sample (a key of TYPES), `channels`, and its `blocks`."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        """Read the head of a stream that begins at data[0].

        Raises: ValueError for anything but shorten of version 1 to 3.
        """
        head = bytes(data[: len(MAGIC) + 1])
        if head[:-1] != MAGIC or head[-1] not in VERSIONS:
            raise ValueError("expected shorten of version 1 to 3, got another stream")
        self._data = data
        self._version = head[-1]
        self._state = np.zeros(5, np.int64)
        self._state[_BIT] = 8 * len(head)
        self.kind = self._field("type of sample", tuple(TYPES))
        self.channels = self._field("number of channels", range(1, MAX_CHANNELS + 1))
        self._max_block = self._field("block size", range(1, MAX_BLOCK + 1))
        self._order = self._field("filter order", range(MAX_ORDER + 1))
        self._means = self._field("number of means", range(MAX_MEANS + 1))
        for _ in range(self._field("number of bytes to skip", range(1 << 16))):
            _checked(_unsigned(data, self._state, 7))
        self._state[_BLOCK] = self._max_block

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """Yield the (n, channels) samples in pieces, to the end of the stream; call it once.

        Raises: ValueError where the stream is cut or is none.
        """
        low, high, silence = TYPES[self.kind]
        history = max(_HISTORY, self._order)
        work = np.zeros((self.channels, history + self._max_block), np.int64)
        means = np.full((self.channels, max(1, self._means)), silence, np.int64)
        coefficients = np.zeros(max(3, self._order), np.int64)
        max_shift = 0 if self.kind in MULAW_TYPES else _MAX_SHIFT
        limits = np.array([self._version, self._order, self._means, low, high, max_shift])
        out = np.zeros((PIECE + self._max_block, self.channels), np.int32)
        left = SAMPLES_PER_BYTE * len(self._data)
        status = _FULL
        while status == _FULL:
            status = _decode(self._data, self._state, work, means, coefficients, limits, out)
            filled = int(self._state[_FILLED])
            left -= filled * self.channels
            if left < 0:
                raise ValueError(f"expected at most {SAMPLES_PER_BYTE} samples a byte, got more")
            yield out[:filled].copy()
            self._state[_FILLED] = 0
            _checked(status)

    def _field(self, name: str, allowed: range | tuple[int, ...]) -> int:
        value = _checked(_number(self._data, self._state))
        if value not in allowed:
            raise ValueError(f"expected a {name} of at most {max(allowed)}, got {value}")
        return value


def _checked(status: int) -> int:
    """Return what a compiled loop returned, unless it is an error."""
    if status < 0:
        raise ValueError(f"expected {_ERRORS[status]}")
    return int(status)


@numba.njit(cache=True, nogil=True)
def _unsigned(data: NDArray[np.uint8], state: NDArray[np.int64], low: int) -> int:
    """Return the next Rice code: zeros up to a one count its high part, `low` bits follow."""
    bit, size, high = state[_BIT], 8 * len(data), 0
    most = 1 << max(_LARGEST - low, 0)
    while bit < size and (data[bit >> 3] >> (7 - (bit & 7))) & 1 == 0:
        bit += 1
        high += 1
        if high >= most:
            return _TOO_LARGE
    if low > _LARGEST:
        return _TOO_LARGE
    bit += 1
    if bit + low > size:
        return _CUT
    for _ in range(low):
        high = high << 1 | ((data[bit >> 3] >> (7 - (bit & 7))) & 1)
        bit += 1
    state[_BIT] = bit
    return high


@numba.njit(cache=True, nogil=True)
def _number(data: NDArray[np.uint8], state: NDArray[np.int64]) -> int:
    """Return the next number that states its own `low`."""
    low = _unsigned(data, state, 2)
    return low if low < 0 else _unsigned(data, state, low)


@numba.njit(cache=True, nogil=True)
def _ratio(a: int, b: int) -> int:
    """Return a / b without its fraction, as C has it."""
    return a // b if a >= 0 else -(-a // b)


@numba.njit(cache=True, nogil=True)
def _expected_mean(means: Any, limits: Any, shift: int) -> int:
    """Return what the last blocks let expect as the mean of a channel's next one."""
    if limits[2] == 0:
        return means[0]
    total = 0 if limits[0] < 2 else limits[2] // 2
    for mean in means:
        total += mean
    mean = _ratio(total, limits[2])
    return mean if limits[0] < 2 else mean >> shift


@numba.njit(cache=True, nogil=True)
def _remember_mean(block: Any, means: Any, limits: Any, shift: int) -> None:
    if limits[2] == 0:
        return
    total = 0 if limits[0] < 2 else len(block) // 2
    for value in block:
        total += value
    means[:-1] = means[1:].copy()
    means[-1] = _ratio(total, len(block)) << (0 if limits[0] < 2 else shift)


@numba.njit(cache=True, nogil=True)
def _read_filter(
    function: int, data: Any, state: Any, coefficients: Any, limits: Any
) -> tuple[int, int]:
    """Return the order of a block's predictor and the low bits of its residuals, or an error."""
    residual_low = _unsigned(data, state, 3)
    if residual_low < 0:
        return residual_low, 0
    if function <= _DIFF3:
        fixed = ((0, 0, 0), (1, 0, 0), (2, -1, 0), (3, -3, 1))
        for k in range(3):
            coefficients[k] = fixed[function][k]
        return function, residual_low
    order = _unsigned(data, state, 2)
    if order > limits[1]:
        return _BAD_ORDER, 0
    for k in range(order):
        code = _unsigned(data, state, _QUANTUM + 1)
        if code < 0:
            return code, 0
        coefficients[k] = (code >> 1) ^ -(code & 1)
    return order, residual_low


@numba.njit(cache=True, nogil=True)
def _read_block(
    function: int, data: Any, state: Any, row: Any, mean: int, coefficients: Any, limits: Any
) -> int:
    """Read a block into `row`, behind its history; return an error or _FULL."""
    block, shift = state[_BLOCK], state[_SHIFT]
    start = len(row) - block
    if function == _ZERO:
        row[start:] = 0
        return _FULL
    order, residual_low = _read_filter(function, data, state, coefficients, limits)
    if order < 0:
        return order
    is_filter = function == _QLPC
    added = mean if is_filter else 0  # the filter works on samples without their mean
    first = mean if function == 0 else 0
    if is_filter and limits[0] > 1:
        first = 1 << _QUANTUM
    row[start - order : start] -= added
    for t in range(start, len(row)):
        code = _unsigned(data, state, residual_low + 1)
        if code < 0:
            return code
        total = first
        for k in range(order):
            total += coefficients[k] * row[t - 1 - k]
        if is_filter:
            total >>= _QUANTUM
        value = total + ((code >> 1) ^ -(code & 1))
        row[t] = value
        whole = value + added
        if abs(whole) > 1 << 16 or not limits[3] <= whole << shift <= limits[4]:
            return _BAD_SAMPLE
    row[start:] += added
    return _FULL


@numba.njit(cache=True, nogil=True)
def _change(function: int, data: Any, state: Any, max_block: int, max_shift: int) -> int:
    """Carry out a function that is no block; return an error, _FULL to go on, or _ENDED."""
    if function == _QUIT:
        return _ENDED
    if function == _BLOCKSIZE:
        size = _number(data, state)
        if size > max_block or size == 0:
            return _BAD_BLOCK
        state[_BLOCK] = size
        return min(size, _FULL)
    if function == _BITSHIFT:
        shift = _unsigned(data, state, 2)
        if shift > max_shift:
            return _BAD_SHIFT
        state[_SHIFT] = shift
        return min(shift, _FULL)
    if function != _VERBATIM:
        return _NO_FUNCTION
    count = _unsigned(data, state, 5)
    for _ in range(count):
        code = _unsigned(data, state, 8)
        if code < 0:
            return code
    return min(count, _FULL)


@numba.njit(cache=True, nogil=True)
def _decode(
    data: Any, state: Any, work: Any, means: Any, coefficients: Any, limits: Any, out: Any
) -> int:
    """Fill `out` with blocks while there is room; return _FULL, _ENDED or an error."""
    channels, max_block = work.shape[0], len(out) - PIECE
    history = work.shape[1] - max_block
    while state[_FILLED] < PIECE:
        function = _unsigned(data, state, 2)
        if function < 0:
            return function
        if function > _DIFF3 and function != _QLPC and function != _ZERO:
            status = _change(function, data, state, max_block, limits[5])
            if status != _FULL:
                return status
            continue
        channel, block, shift = state[_CHANNEL], state[_BLOCK], state[_SHIFT]
        row = work[channel, : history + block]
        mean = _expected_mean(means[channel], limits, shift)
        status = _read_block(function, data, state, row, mean, coefficients, limits)
        if status != _FULL:
            return status
        filled = state[_FILLED]
        for t in range(block):
            out[filled + t, channel] = row[history + t] << shift
        _remember_mean(row[history:], means[channel], limits, shift)
        row[:history] = row[block:].copy()
        state[_CHANNEL] = (channel + 1) % channels
        if state[_CHANNEL] == 0:
            state[_FILLED] += block
    return _FULL
