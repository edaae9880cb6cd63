"""What all sketches are: counters that are sums over the stream, which can be added, subtracted, and sent as bytes."""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from spark_jobs.errors import SketchDamagedError, SketchMismatchError

Int64Array = NDArray[np.int64]

_MAGIC = b"FRESHSKT"
_FORMAT = 1
# Magic, format, kind, axes of the counters; then seed and shape, the counters, and a checksum of all that.
_HEADER = struct.Struct("<8sHHI")
_NUMBER = np.dtype("<i8")
_CHECKSUM = struct.Struct("<I")


class LinearSketch(ABC):
    """Counters, each the sum of a stream's weights under signs that depend on the seed and the value alone.

    So the sketch of a stream is the same whatever the order of its tuples, a deleted tuple leaves no trace, and the
    sketch of two streams together is the sum of theirs. Counters are exact while their absolute values stay below 2^63.

    Attributes:
        seed: of the hash functions; only sketches of the same seed and shape belong together.
        counters: int64; their shape is that of the class.
    """

    kind: ClassVar[int]
    """Stands in the bytes: what class wrote them."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        if min(shape) < 1:
            raise ValueError(f"a sketch of {' x '.join(map(str, shape))} counters holds nothing: give at least 1 each")
        self.seed = seed
        self.counters: Int64Array = np.zeros(shape, np.int64)

    @abstractmethod
    def update(self, values: Int64Array, weights: Int64Array | None = None) -> None:
        """Count tuples.

        Args:
            values: int64, shape (n,); may repeat.
            weights: int64, shape (n,), how often each came, negative for deletes; None for once each.

        Raises:
            ValueError: values and weights differ in number.
        """

    def __add__(self, other: Self) -> Self:
        """The sketch of both streams together: of what two tasks or hosts have seen. O(counters)."""
        self.check_fits(other)
        return self.with_counters(self.counters + other.counters)

    def __sub__(self, other: Self) -> Self:
        """The sketch of the difference of the streams' frequencies; all zero where they are equal. O(counters)."""
        self.check_fits(other)
        return self.with_counters(self.counters - other.counters)

    def with_counters(self, counters: Int64Array) -> Self:
        """A sketch of the same seed and shape with other counters."""
        made = type(self)(*self.counters.shape, seed=self.seed)  # type: ignore[misc]
        made.counters = counters
        return made

    @property
    def is_zero(self) -> bool:
        """Whether every counter is zero, as of a stream that is empty or whose tuples were all deleted."""
        return not self.counters.any()

    def check_fits(self, other: LinearSketch) -> None:
        """See that two sketches may be added or joined.

        Raises:
            SketchMismatchError: they differ in class, seed or shape.
        """
        if type(self) is not type(other):
            raise SketchMismatchError(
                f"A {type(self).__name__} and a {type(other).__name__} don't belong together: "
                "sketch both streams with the same class."
            )
        if self.seed != other.seed or self.counters.shape != other.counters.shape:
            raise SketchMismatchError(
                f"Sketches of seed {self.seed} with {_told(self)} counters and of seed {other.seed} with "
                f"{_told(other)} don't belong together: their hash functions differ. Sketch both streams anew, "
                "with the same seed and shape."
            )

    def memory_used(self) -> int:
        """Bytes of the counters."""
        return self.counters.nbytes

    def to_bytes(self) -> bytes:
        """The sketch as bytes, with version and checksum; the same on every machine. O(counters)."""
        numbers = np.array([self.seed, *self.counters.shape], _NUMBER).tobytes()
        counters = self.counters.astype(_NUMBER, copy=False).tobytes()
        content = _HEADER.pack(_MAGIC, _FORMAT, self.kind, self.counters.ndim) + numbers + counters
        return content + _CHECKSUM.pack(zlib.crc32(content))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The sketch that `to_bytes` wrote. O(counters).

        Raises:
            SketchDamagedError: the bytes are damaged, cut off, of another class or format, or none of a sketch.
        """
        content, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
        if len(content) < _HEADER.size or content[: len(_MAGIC)] != _MAGIC:
            raise SketchDamagedError("These bytes are not a sketch's: give what to_bytes wrote, whole.")
        _, format_, kind, axes = _HEADER.unpack_from(content)
        if format_ != _FORMAT:
            raise SketchDamagedError(
                f"This sketch has format {format_}, and this version reads {_FORMAT}: make it anew, or read it with "
                "the version that wrote it."
            )
        if _CHECKSUM.pack(zlib.crc32(content)) != checksum:
            raise SketchDamagedError("A sketch's bytes don't fit their checksum: take another copy, or make it anew.")
        if kind != cls.kind:
            raise SketchDamagedError(f"This is no {cls.__name__} but a sketch of kind {kind}: read it with its class.")
        seed, *shape = np.frombuffer(content, _NUMBER, 1 + axes, _HEADER.size).tolist()
        made = cls(*shape, seed=seed)  # type: ignore[misc]
        counters = np.frombuffer(content, _NUMBER, offset=_HEADER.size + _NUMBER.itemsize * (1 + axes))
        made.counters = counters.reshape(shape).astype(np.int64)
        return made


def as_arrays(values: Int64Array, weights: Int64Array | None) -> tuple[Int64Array, Int64Array]:
    """Values and weights as contiguous int64 arrays of one length; weights of one each where there are none.

    Raises:
        ValueError: they differ in number.
    """
    values = np.ascontiguousarray(values, np.int64)
    weights = np.ones(len(values), np.int64) if weights is None else np.ascontiguousarray(weights, np.int64)
    if values.shape != weights.shape or values.ndim != 1:
        raise ValueError(f"{values.shape} values and {weights.shape} weights: give one weight for each value")
    return values, weights


def _told(sketch: LinearSketch) -> str:
    return " x ".join(map(str, sketch.counters.shape))
