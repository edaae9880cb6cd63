"""A consumer of Kafka that takes records as one block of bytes, not as an object each: librdkafka's own functions.

confluent-kafka brings librdkafka, and makes a Python object of every record, which takes six times as long.
Only documented functions are called; their binary interface has been the same through all versions 1 and 2.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, cimpl
from numpy.typing import NDArray

from spark_jobs.columns.jit import foreign_call, kernel

_CONSUMER = 1
_NO_CONSUMER_CLOSE = 8
_TEXT_BYTES = 512


class _Message(ctypes.Structure):
    """rd_kafka_message_t; pointers as numbers."""

    _fields_ = (
        ("error", ctypes.c_int),
        ("topic", ctypes.c_size_t),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_size_t),
        ("length", ctypes.c_size_t),
        ("key", ctypes.c_size_t),
        ("key_length", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_size_t),
    )


_HEAD = np.dtype(_Message)


class Consumed(NamedTuple):
    """What came of the partition that is assigned.

    Attributes:
        values: binary array, shape (n,); null where a record has no value.
        offsets: int64, shape (n,), ascending.
        timestamps: int64, shape (n,), ms since 1970; negative: none.
        epochs: int32, shape (n,): of the leader that took the record; -1: not known.
        told: what came besides records, each with the offset that it is about.
    """

    values: pa.Array
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    epochs: NDArray[np.int32]
    told: list[tuple[int, KafkaError]]


class KafkaConsumer:
    """Takes the records of one partition at a time; never joins its group. For one thread.

    Args:
        settings: librdkafka's.

    Raises:
        KafkaException: it does not take one of them.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._functions = functions = _functions()
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        configuration = functions.rd_kafka_conf_new()
        for name, value in settings.items():
            if functions.rd_kafka_conf_set(configuration, name.encode(), value.encode(), text, _TEXT_BYTES):
                functions.rd_kafka_conf_destroy(configuration)
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text.value.decode()))
        self._client = functions.rd_kafka_new(_CONSUMER, configuration, text, _TEXT_BYTES)
        if not self._client:
            functions.rd_kafka_conf_destroy(configuration)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text.value.decode()))
        functions.rd_kafka_poll_set_consumer(self._client)
        self._queue = functions.rd_kafka_queue_get_consumer(self._client)
        weakref.finalize(self, _close, functions, self._client, self._queue)  # also when the interpreter ends

    def assign(self, topic: str, partition: int, offset: int) -> None:
        """Take records from an offset of a partition on, and no others."""
        with _Partitions(self._functions, [(topic, partition, offset)]) as partitions:
            self._check(self._functions.rd_kafka_assign(self._client, partitions))

    def unassign(self) -> None:
        """Take none any more."""
        self._check(self._functions.rd_kafka_assign(self._client, None))

    def commit(self, positions: Iterable[tuple[str, int, int]]) -> None:
        """Tell the group how far (topic, partition, offset) are read; does not wait for an answer."""
        with _Partitions(self._functions, positions) as partitions:
            self._check(self._functions.rd_kafka_commit(self._client, partitions, 1))

    def watermarks(self, topic: str, partition: int, seconds: float) -> tuple[int, int]:
        """The oldest offset of a partition, and the one after its newest record.

        Raises:
            KafkaException: no broker answers in time.
        """
        low, high = ctypes.c_int64(), ctypes.c_int64()
        ends = ctypes.byref(low), ctypes.byref(high)
        self._check(
            self._functions.rd_kafka_query_watermark_offsets(
                self._client, topic.encode(), partition, *ends, int(seconds * 1000)
            )
        )
        return low.value, high.value

    def consume(self, most: int, seconds: float) -> Consumed:
        """The next records, at most so many; fewer where no more have come in time. O(bytes).

        Raises:
            KafkaException: they can't be read.
        """
        functions = self._functions
        messages = np.empty(most, np.uintp)
        count = functions.rd_kafka_consume_batch_queue(self._queue, int(seconds * 1000), messages.ctypes.data, most)
        if count < 0:
            raise KafkaException(self._error(functions.rd_kafka_last_error()))
        messages = messages[:count]
        try:
            heads, timestamps, epochs = self._heads(messages)
            sound = heads["error"] == 0
            told = [(int(head["offset"]), self._told(head)) for head in heads[~sound]]
            starts = np.zeros(count + 1, np.int64)
            np.cumsum(np.where(sound, heads["length"], 0), out=starts[1:])
            data = np.empty(int(starts[-1]), np.uint8)
        except BaseException:
            for message in messages.tolist():
                functions.rd_kafka_message_destroy(message)
            raise
        take_values(
            *(messages, heads["payload"].copy(), starts, data.ctypes.data),
            *(_address(_copy()), _address(functions.rd_kafka_message_destroy)),
        )
        values = _binary(heads["payload"] != 0, starts, data)
        if told:
            values, heads = values.filter(pa.array(sound)), heads[sound]
            timestamps, epochs = timestamps[sound], epochs[sound]
        return Consumed(values, heads["offset"].copy(), timestamps, epochs, told)

    def _heads(self, messages: NDArray[np.uintp]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int32]]:
        """What messages say of themselves, their timestamps and leaders' epochs; each of shape (n,)."""
        count, functions = len(messages), self._functions
        heads, timestamps, epochs = np.empty(count, _HEAD), np.empty(count, np.int64), np.empty(count, np.int32)
        kind = np.empty(1, np.int64)
        read_heads(
            *(messages, heads.ctypes.data, _HEAD.itemsize, timestamps, epochs, kind.ctypes.data, _address(_copy())),
            *(_address(functions.rd_kafka_message_timestamp), _address(functions.rd_kafka_message_leader_epoch)),
        )
        return heads, timestamps, epochs

    def _told(self, head: Any) -> KafkaError:
        said = ctypes.string_at(int(head["payload"]), int(head["length"])) if head["payload"] else b""
        return self._error(int(head["error"]), said.decode(errors="replace"))

    def _check(self, code: int) -> None:
        if code:
            raise KafkaException(self._error(code))

    def _error(self, code: int, said: str = "") -> KafkaError:
        return KafkaError(code, said or self._functions.rd_kafka_err2str(code).decode())


def _close(functions: ctypes.CDLL, client: int, queue: int) -> None:
    """End the client's threads: it has no group to leave."""
    functions.rd_kafka_queue_destroy(queue)
    functions.rd_kafka_destroy_flags(client, _NO_CONSUMER_CLOSE)


class _Partitions:
    """rd_kafka_topic_partition_list_t for the time of a block.

    Args:
        functions: librdkafka's.
        positions: topic, partition and offset of each.
    """

    def __init__(self, functions: ctypes.CDLL, positions: Iterable[tuple[str, int, int]]) -> None:
        self._functions = functions
        self._positions = positions

    def __enter__(self) -> int:
        positions = list(self._positions)
        self._list: int = self._functions.rd_kafka_topic_partition_list_new(len(positions))
        for topic, partition, offset in positions:
            self._functions.rd_kafka_topic_partition_list_add(self._list, topic.encode(), partition)
            self._functions.rd_kafka_topic_partition_list_set_offset(self._list, topic.encode(), partition, offset)
        return self._list

    def __exit__(self, *_: object) -> None:
        self._functions.rd_kafka_topic_partition_list_destroy(self._list)


_POINTER, _TEXT, _NUMBER, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
_SIGNATURES: dict[str, tuple[Any, ...]] = {  # what is returned, and what is taken
    "conf_new": (_POINTER,),
    "conf_set": (_NUMBER, _POINTER, _TEXT, _TEXT, _TEXT, _SIZE),
    "conf_destroy": (None, _POINTER),
    "new": (_POINTER, _NUMBER, _POINTER, _TEXT, _SIZE),
    "poll_set_consumer": (_NUMBER, _POINTER),
    "queue_get_consumer": (_POINTER, _POINTER),
    "queue_destroy": (None, _POINTER),
    "destroy_flags": (None, _POINTER, _NUMBER),
    "assign": (_NUMBER, _POINTER, _POINTER),
    "commit": (_NUMBER, _POINTER, _POINTER, _NUMBER),
    "query_watermark_offsets": (_NUMBER, _POINTER, _TEXT, ctypes.c_int32, _POINTER, _POINTER, _NUMBER),
    "consume_batch_queue": (ctypes.c_ssize_t, _POINTER, _NUMBER, _POINTER, _SIZE),
    "last_error": (_NUMBER,),
    "err2str": (_TEXT, _NUMBER),
    "message_timestamp": (ctypes.c_int64, _POINTER, _POINTER),
    "message_leader_epoch": (ctypes.c_int32, _POINTER),
    "message_destroy": (None, _POINTER),
    "topic_partition_list_new": (_POINTER, _NUMBER),
    "topic_partition_list_add": (_POINTER, _POINTER, _TEXT, ctypes.c_int32),
    "topic_partition_list_set_offset": (_NUMBER, _POINTER, _TEXT, ctypes.c_int32, ctypes.c_int64),
    "topic_partition_list_destroy": (None, _POINTER),
}


@cache
def _functions() -> ctypes.CDLL:
    """librdkafka, as confluent-kafka's extension has loaded it."""
    library = ctypes.CDLL(cimpl.__file__)
    for name, (returned, *taken) in _SIGNATURES.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = returned, taken
    return library


@cache
def _copy() -> Any:
    return ctypes.CDLL(None).memcpy


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _binary(valid: NDArray[np.bool_], starts: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    """A binary array of values that lie one after the other."""
    bits = None if valid.all() else pa.array(valid).buffers()[1]
    buffers = [bits, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(valid), buffers).cast(pa.binary())


@kernel
def read_heads(
    messages: NDArray[np.uintp],
    heads: int,
    size: int,
    timestamps: NDArray[np.int64],
    epochs: NDArray[np.int32],
    kind: int,
    copy: int,
    time: int,
    epoch: int,
) -> None:
    """Read what messages say of themselves.

    Args:
        messages: addresses of messages, shape (n,).
        heads: address of n times `size` bytes, where the messages' own go.
        size: bytes of a message, without what it points at.
        timestamps: shape (n,). Written.
        epochs: shape (n,). Written.
        kind: address of what nobody reads.
        copy: address of memcpy.
        time: address of rd_kafka_message_timestamp.
        epoch: address of rd_kafka_message_leader_epoch.
    """
    for number in range(len(messages)):
        message = np.int64(messages[number])
        foreign_call(copy, heads + number * size, message, size)
        timestamps[number] = foreign_call(time, message, kind, 0)
        epochs[number] = np.int32(foreign_call(epoch, message, 0, 0))  # of the word only 32 bits are given


@kernel
def take_values(
    messages: NDArray[np.uintp],
    payloads: NDArray[np.uintp],
    starts: NDArray[np.int64],
    data: int,
    copy: int,
    destroy: int,
) -> None:
    """Copy the values of messages, and give the messages back.

    Args:
        messages: their addresses, shape (n,).
        payloads: addresses of their values, shape (n,).
        starts: where the copy of each starts, and the last one ends, shape (n + 1,).
        data: address of where they go.
        copy: address of memcpy.
        destroy: address of rd_kafka_message_destroy.
    """
    for number in range(len(messages)):
        length = starts[number + 1] - starts[number]
        if length:
            foreign_call(copy, data + starts[number], np.int64(payloads[number]), length)
        foreign_call(destroy, np.int64(messages[number]), 0, 0)
