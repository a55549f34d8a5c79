"""Shorthand for instructions of LLVM: what the intrinsics of compiled code are emitted with."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

_INT8, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


class Emitter:
    """Shorthand for the instructions of one intrinsic."""

    def __init__(self, context: Any, builder: Any, types_: Any, arguments: Any) -> None:
        self.context, self.builder = context, builder
        self.types, self.arguments = types_, arguments

    def pointer(self, index: int, offset: Any, size: int) -> Any:
        """Return the byte address of an array argument's element `offset`."""
        array = self.context.make_array(self.types[index])
        data = array(self.context, self.builder, self.arguments[index]).data
        return self.at(self.builder.bitcast(data, _INT8.as_pointer()), self.times(offset, size))

    def at(self, pointer: Any, offset: Any) -> Any:
        """Return an address `offset` bytes on."""
        return self.builder.gep(pointer, [int64(offset)])

    def times(self, value: Any, factor: int) -> Any:
        return self.builder.mul(value, int64(factor))

    def load(self, pointer: Any, kind: Any) -> Any:
        loaded = self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()))
        loaded.align = 4
        return loaded

    def store(self, value: Any, pointer: Any, align: int = 4) -> None:
        where = self.builder.bitcast(pointer, value.type.as_pointer())
        self.builder.store(value, where).align = align

    def spread(self, value: Any, lanes: int) -> Any:
        """Return a vector with `value` in each lane."""
        kind = ir.VectorType(value.type, lanes)
        empty = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(empty, value, ir.Constant(_INT32, 0))
        mask = ir.Constant(ir.VectorType(_INT32, lanes), [0] * lanes)
        return self.builder.shuffle_vector(first, empty, mask)

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        kind = ir.FunctionType(result, arguments)
        found = self.builder.module.globals.get(name)
        return found or ir.Function(self.builder.module, kind, name)


def emitted(signature: Any, emit: Callable[[Emitter], Any]) -> tuple[Any, Any]:
    """Return what an intrinsic returns: its signature, and what generates its code and result."""

    def generate(context: Any, builder: Any, given: Any, arguments: Any) -> Any:
        found = emit(Emitter(context, builder, given.args, arguments))
        return context.get_dummy_value() if found is None else found

    return signature, generate


def int64(value: Any) -> Any:
    """Return a number as a constant of 64 bits; what is a value of the code stays."""
    return ir.Constant(_INT64, value) if isinstance(value, int) else value
