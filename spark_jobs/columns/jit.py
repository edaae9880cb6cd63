"""Compiles the kernels: the only place that knows the compiler and its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])
Scalar = TypeVar("Scalar", bound=np.generic)

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}


def kernel(function: Function) -> Function:
    """Compile a function over arrays to machine code at its first call.

    The code is cached on disk beside the source, or in the user's cache folder where that can't be
    written, so that a new worker process loads it instead of compiling. Kernels release the global
    interpreter lock, don't check bounds, and divide as numpy does: the public function around a
    kernel has validated its arguments.

    The cache notices a change of the kernel's own file only. So a kernel calls no kernel of another
    file, except those of `hashing`, whose results may never change, and `foreign_call`.
    """
    return _compiled(function, _OPTIONS)


def kernel_part(function: Function) -> Function:
    """Compile a function into the kernels that call it: for what they do to every single tuple.

    Left to itself the compiler makes a call of it, which costs more than what most parts do: an array
    is handed over as seven numbers.

    In a loop over tuples, neither replace an array nor take arrays out of a tuple within a branch: the compiler
    then counts references there, atomically, which costs as much as a look into a table.
    """
    return _compiled(function, _OPTIONS | {"forceinline": True})


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    dispatcher = numba.njit(**options)(function)
    dispatcher._cache = _MachineCode(function)  # type: ignore[no-untyped-call]
    return cast(Function, dispatcher)


def _foreign_call(context: Any, function: Any, first: Any, second: Any, third: Any) -> Any:
    from llvmlite import ir  # here, since compiled code does without the compiler

    word = ir.IntType(64)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        called = builder.inttoptr(arguments[0], ir.FunctionType(word, [word] * 3).as_pointer())
        return builder.call(called, arguments[1:])

    return numba.int64(numba.int64, numba.int64, numba.int64, numba.int64), code


foreign_call = cast("Callable[[Any, Any, Any, Any], Any]", intrinsic(_foreign_call))
"""In a kernel, calls a C function by its address with three integers or addresses; its integer, if it gives one.

One that takes fewer does not see the rest: they are in registers that it does not read.
"""


class _MachineCode(FunctionCache):
    """The compiler's cache on disk, read without making the compiler ready, which takes half of a worker's start.

    Whatever has to be compiled still makes it ready.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def read_only(values: NDArray[Scalar]) -> NDArray[Scalar]:
    """The same array, marked as one that is only read: what kernels take as input.

    Arrays mapped from a file or lent by Arrow can't be written, others can; the compiler would make
    a version of a kernel for each mixture of the two. O(1).
    """
    if not values.flags.writeable:
        return values
    view = values.view()
    view.setflags(write=False)
    return view
