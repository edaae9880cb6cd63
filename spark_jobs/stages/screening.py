"""Screening: rejects stream tuples without an event id, and those whose key no tuple of R can ever have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import single_array
from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind, key_values
from spark_jobs.definition.fates import CAN_NOT_MATCH, UNIDENTIFIED, Fate
from spark_jobs.definition.stream_tuple import EventColumns
from spark_jobs.loading.chunk import without_long_ids
from spark_jobs.loading.outcome import Held
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.stages.stream_plan import StreamPlan

_IMPOSSIBLE_KEY = "a key that can never match: "
_NO_EVENT_ID = "event id: {} is null, and an event id must not be"
_NULL_KEY = _IMPOSSIBLE_KEY + "{} is null, which matches no value of the other streams"
_LONGEST_VALUE = 80
Bools = NDArray[np.bool_]


def screen(tuples: pa.Table, event: EventColumns) -> tuple[pa.Table, list[Held]]:
    """Take out the tuples without an event id.

    Args:
        tuples: stream tuples as they arrive, shape (n,).
        event: the pipeline's event columns.

    Returns:
        The sound tuples, and the rejected ones by reason. O(1) where all are sound.
    """
    return _without_nulls(tuples, [(column, UNIDENTIFIED, _NO_EVENT_ID) for column in event.event_id])


def screen_part(tuples: pa.Table, plan: StreamPlan) -> tuple[pa.Table, list[Held]]:
    """Take out the tuples of one of several streams whose event id, key or time can't be used.

    Args:
        tuples: of the stream, as they arrive, shape (n,).
        plan: the stream.

    Returns:
        The sound tuples, and the rejected ones by reason, as those of the stream. O(1) a tuple where all are sound.
    """
    event = plan.held.event
    on = (*plan.key, *plan.matched)
    reasons = [
        *((column, UNIDENTIFIED, _NO_EVENT_ID) for column in event.event_id),
        *((column, CAN_NOT_MATCH, _NULL_KEY) for column in on),
        (event.event_time, UNIDENTIFIED, "event time: {} is null, so that it can't be told what the event belongs to"),
    ]
    sound, rejected = _without_nulls(tuples, reasons)
    sound, too_long = without_long_ids(sound, plan.held.event_id)
    rejected += too_long
    for column in on:
        if pa.types.is_string(sound.schema.field(column).type):
            _, possible = key_values(sound[column], KeyKind.TEXT)
            if not possible.all():
                faulty, why = sound.filter(pa.array(~possible)), "which is not UTF-8 or has a NUL byte"
                rejected.append(Held(CAN_NOT_MATCH, _reasons(faulty[column], column, why), None, faulty))
                sound = sound.filter(pa.array(possible))
    if len(plan.matched) == 2:
        first, end = plan.matched
        some = pc.less(sound[first], sound[end])
        if not pc.all(some).as_py():
            empty = sound.filter(pc.invert(some))
            why = f"which has to be after {first}: what is empty overlaps nothing"
            rejected.append(Held(CAN_NOT_MATCH, _reasons(empty[end], end, why), None, empty))
            sound = sound.filter(some)
    return sound, [replace(group, stream=plan.held) for group in rejected]


def _without_nulls(tuples: pa.Table, reasons: Sequence[tuple[str, Fate, str]]) -> tuple[pa.Table, list[Held]]:
    """Tuples without nulls in these columns; and the others, by fate and reason of the first column that is null."""
    rejected: list[Held] = []
    for column, fate, reason in reasons:
        if tuples[column].null_count:
            missing = tuples[column].is_null().to_numpy()
            rejected.append(Held(fate, reason.format(column), None, tuples.filter(pa.array(missing))))
            tuples = tuples.filter(pa.array(np.logical_not(missing)))
    return tuples, rejected


def screen_keys(
    tuples: pa.Table, keys: Sequence[KeyColumns], plans: Sequence[LookupPlan], event_time: str
) -> tuple[Bools, list[Held]]:
    """Tell the tuples that may find a match in every lookup, or get its defaults, from those that never can.

    Args:
        tuples: sound stream tuples, shape (n,).
        keys: their keys, for each lookup.
        plans: the lookups.
        event_time: the column with the event's time, by which versions of R are found.

    Returns:
        bool, shape (n,): the former; and the others as rejected tuples, each once, with column and value. O(1) a tuple
        where all are former.
    """
    possible = np.ones(tuples.num_rows, np.bool_)
    rejected: list[Held] = []
    for plan, key in zip(plans, keys, strict=True):
        for impossible, column, why in _faults(tuples, key, plan, event_time):
            where = impossible & possible
            if where.any():
                faulty = tuples.filter(pa.array(where))
                rejected.append(Held(CAN_NOT_MATCH, _reasons(faulty[column], column, why), plan.spec.relation, faulty))
                possible &= ~where
    return possible, rejected


def _faults(tuples: pa.Table, key: KeyColumns, plan: LookupPlan, event_time: str) -> Iterator[tuple[Bools, str, str]]:
    """Where a lookup can never find anything, bool, shape (n,), because of the value in which column, and why."""
    if plan.on_unmatched == "default":
        return
    if not key.valid.all():
        suspects = np.flatnonzero(~key.valid)
        for column in plan.spec.key:
            where = np.zeros(tuples.num_rows, np.bool_)
            where[suspects] = ~column.could_hold(tuples[column.stream].take(pa.array(suspects)))
            equal = f"which equals no value of {plan.spec.relation}.{column.name} ({column.type.postgres})"
            yield where, column.stream, equal
    if plan.spec.validity is not None and tuples[event_time].null_count:
        untimed = tuples[event_time].is_null().to_numpy()
        yield untimed, event_time, f"so that no version in {plan.spec.relation} can be told"


def _reasons(values: pa.ChunkedArray, column: str, why: str) -> pa.StringArray:
    return pc.binary_join_element_wise(f"{_IMPOSSIBLE_KEY}{column} is ", _shown(values), f", {why}", "")


def _shown(values: pa.ChunkedArray) -> pa.StringArray:
    array = single_array(values)
    text = array.cast(pa.string())
    if text.type != array.type and not pa.types.is_large_string(array.type):
        return text.fill_null("null")
    distinct = text.view(pa.binary()).dictionary_encode()
    quoted = pa.array([_quoted(value) for value in distinct.dictionary.to_pylist()], pa.string())
    return quoted.take(distinct.indices).fill_null("null")


def _quoted(value: bytes) -> str:
    text = value.decode("utf-8", "backslashreplace")
    return json.dumps(text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "...")
