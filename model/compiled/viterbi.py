"""Viterbi's algorithm over the phones of one word, all of its phones at once.

A column of scores, one for each phone, stays in a register while the frames run by. LLVM does not
find this itself: each score depends on two of the frame before, at other places of the register.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from cortado.model.compiled.emitter import Emitter, emitted, int64

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
IMPOSSIBLE = np.float32(-1e9)  # the score of no way; sums with it lose nothing of the rest
NEVER = float("-inf")


def viterbi(lanes: int) -> Callable[..., Any]:
    """Return an intrinsic that lays the phones of a word on frames, and returns a score.

    That is the score of the best way up to the last frame, of those that end at any phone or behind
    the last one; a phone that they do not reach costs `unspoken`.

    It takes words of fewer than `lanes` phones. Its arguments, arrays contiguous:
        begun: (N,) float32, score of what is before the word, by the frame at which that ended;
        heard: (N, P) float32, of each phone at each frame; row: P;
        phones, count: (count,) int32, the word's;
        first, end: a frame that may end what is before the word, before which none may; and the one
            after the last frame;
        missed, beyond, unspoken: float32, what it costs to leave a phone out, a frame behind the
            word, and a last phone that is not heard yet;
        ended: (N,) float32, set from `first` + 1 to `end` to the scores of the ways that end with
            the last phone; of a word without phones, to those of the ways behind it;
        reached: (lanes or more,) float32, set to the scores of the ways that are at each phone, and
            behind the last, at the last frame.
    """

    @intrinsic
    def lay(  # type: ignore[no-untyped-def]
        typing,
        begun,
        heard,
        row,
        phones,
        count,
        first,
        end,
        missed,
        beyond,
        unspoken,
        ended,
        reached,
    ):
        arrays = begun, heard, phones, ended, reached
        if any(array.layout != "C" for array in arrays) or phones.dtype != types.int32:
            return None
        whole, number = types.intp, types.float32
        costs = number, number, number
        signature = number(begun, heard, whole, phones, whole, whole, whole, *costs, ended, reached)
        return emitted(signature, lambda e: _emit(e, lanes))

    return lay


def _emit(e: Emitter, lanes: int) -> Any:
    builder, numbers = e.builder, ir.VectorType(_FLOAT, lanes)
    _, _, row, _, count, first, end, missed, beyond, unspoken, _, _ = e.arguments
    lane = ir.Constant(ir.VectorType(_INT32, lanes), list(range(lanes)))
    counts = e.spread(builder.trunc(count, _INT32), lanes)
    of_phones = builder.icmp_signed("<", lane, counts)
    phones = _phones(e, of_phones, lanes)
    # What is behind the word has the place of a phone more, which nothing comes to but the last.
    never = ir.Constant(numbers, [-NEVER] * lanes)
    costs = builder.select(of_phones, e.spread(missed, lanes), never)
    behind = e.spread(builder.fneg(beyond), lanes)
    some = builder.icmp_signed(">", count, int64(0))
    last = builder.select(some, builder.sub(count, int64(1)), int64(0))
    none = ir.Constant(numbers, [float(IMPOSSIBLE)] * lanes)
    before_loop, loop, after = builder.block, *map(builder.append_basic_block, ("loop", "after"))
    start = builder.add(first, int64(1))
    builder.cbranch(builder.icmp_signed("<", start, end), loop, after)
    builder.position_at_end(loop)
    n, ways = builder.phi(_INT64), builder.phi(numbers)
    before = e.load(e.pointer(0, builder.sub(n, int64(1)), 4), _FLOAT)
    frame = e.pointer(1, builder.mul(n, row), 4)
    at_frame = _gathered(e, frame, phones, of_phones, behind)
    new = builder.fadd(_reached(e, ways, before, costs), at_frame)
    one, _ = _moved(e, new, ir.Constant(_FLOAT, NEVER))
    ending = _larger(builder, new, builder.fsub(one, costs))
    e.store(builder.extract_element(ending, last), e.pointer(10, n, 4))
    following = builder.add(n, int64(1))
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    for phi, begins, goes_on in ((n, start, following), (ways, none, new)):
        phi.add_incoming(begins, before_loop)
        phi.add_incoming(goes_on, loop)
    builder.position_at_end(after)
    found = builder.phi(numbers)
    found.add_incoming(none, before_loop)
    found.add_incoming(new, loop)
    e.store(found, e.pointer(11, int64(0), 4))
    silent = builder.sub(builder.sub(counts, ir.Constant(lane.type, [1] * lanes)), lane)
    silent = builder.fmul(builder.sitofp(silent, numbers), e.spread(unspoken, lanes))
    silent = builder.select(of_phones, silent, ir.Constant(numbers, [0.0] * lanes))
    silent = builder.select(builder.icmp_signed(">", lane, counts), never, silent)
    reduce = e.function(f"llvm.vector.reduce.fmax.v{lanes}f32", _FLOAT, numbers)
    return builder.call(reduce, [builder.fsub(found, silent)])


def _moved(e: Emitter, ways: Any, before: Any) -> tuple[Any, Any]:
    """Return the scores one and two phones on, where `before` comes to the first."""
    lanes = ways.type.count
    outside = ir.Constant(ways.type, [NEVER] * lanes)
    outside = e.builder.insert_element(outside, before, ir.Constant(_INT32, 0))
    one, two = [lanes, *range(lanes - 1)], [lanes + 1, lanes, *range(lanes - 2)]
    places = (ir.Constant(ir.VectorType(_INT32, lanes), order) for order in (one, two))
    first, second = (e.builder.shuffle_vector(ways, outside, order) for order in places)
    return first, second


def _reached(e: Emitter, ways: Any, before: Any, costs: Any) -> Any:
    """Return the best of the ways that stay, come from the phone before, or leave one out."""
    one, two = _moved(e, ways, before)
    return _larger(e.builder, _larger(e.builder, ways, one), e.builder.fsub(two, costs))


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _phones(e: Emitter, mask: Any, lanes: int) -> Any:
    """Return the word's phones, 0 behind the last."""
    whole = ir.VectorType(_INT32, lanes)
    place = e.builder.bitcast(e.pointer(3, int64(0), 4), whole.as_pointer())
    load = e.function(
        f"llvm.masked.load.v{lanes}i32.p0", whole, place.type, _INT32, mask.type, whole
    )
    nothing = ir.Constant(whole, [0] * lanes)
    return e.builder.call(load, [place, ir.Constant(_INT32, 4), mask, nothing])


def _gathered(e: Emitter, frame: Any, phones: Any, mask: Any, otherwise: Any) -> Any:
    """Return what a frame gives the phones, and `otherwise` behind the last."""
    builder, lanes = e.builder, otherwise.type.count
    found = ir.Constant(otherwise.type, ir.Undefined)
    for n in range(lanes):  # the instruction that gathers takes twice as long on an EPYC (Zen 4)
        lane = ir.Constant(_INT32, n)
        phone = builder.zext(builder.extract_element(phones, lane), _INT64)
        score = e.load(e.at(frame, e.times(phone, 4)), _FLOAT)
        found = builder.insert_element(found, score, lane)
    return builder.select(mask, found, otherwise)
