"""Arrays whose references compiled code does not count.

numba counts the references to an array's memory, one for each view of it, and each time that takes
two atomic operations. In code that takes thousands of views of small rows they cost more than the
work itself, and threads that share the array wait for each other. Nothing needs the count as long
as the caller holds the array.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def _uncounted(typing, value):  # type: ignore[no-untyped-def]
    """Return an array, or nested tuples of arrays and others, without owners of their memory.

    The caller must hold them for as long as they, or views of them, are used.
    """

    def generate(context: Any, builder: Any, given: Any, arguments: Any) -> Any:
        return _released(context, builder, given.return_type, arguments[0])

    return value(value), generate


uncounted: Any = _uncounted  # a call in compiled code lacks the first parameter


def _released(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind  # whose iteration numba does not declare
        for n, part in enumerate(parts):
            released = _released(context, builder, part, builder.extract_value(value, n))
            value = builder.insert_value(value, released, n)
    return value
