"""What a bucket's task gives on: joined tuples, those that lack a part, and tuples that are held, with the reason."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.columns.copy_encoding.column_encoder import PostgresType
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.fates import AFTER_LAST, EXPIRED, EXPIRED_EARLY, LATE
from spark_jobs.definition.joined_tuple import COMPLETED_AT, JOINED_ID
from spark_jobs.definition.shapes import JoinedStreams
from spark_jobs.definition.stream_tuple import ARRIVED_AT, POSITION, RANGE, RECORD
from spark_jobs.join_state.bucket import BucketPlan
from spark_jobs.source.arrivals import Arrivals
from spark_jobs.source.slice_reading import SliceReader
from spark_jobs.stages.collect_task import STREAM
from spark_jobs.stages.exchange import packed
from spark_jobs.stages.hot_buckets import taken_bucket
from spark_jobs.stages.join_task import BucketJoin, Stopwatch
from spark_jobs.stages.stream_plan import JoinPlan, StreamPlan
from spark_jobs.warehouse.fact_table import FactColumn, FactTable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")


def definition(**join: Any) -> PipelineDefinition:
    stream = {"format": "json", "path": "/landing", "event_time": "at"}
    orders = {"schema": "id bigint, at timestamp", "event_id": ["id"]}
    payments = {"schema": "id string, of bigint, part int, at timestamp", "event_id": ["id", "part"]}
    ids = {"order_id": "orders.id", "payment_id": "payments.id", "part": "payments.part"}
    return PipelineDefinition.model_validate(
        {
            "name": "paid",
            "streams": {"orders": stream | orders, "payments": stream | payments},
            "join": {"on": {"orders": "id", "payments": "of"}, "window": "2h"} | join,
            "fact": {"table": "shop.paid", "columns": {"joined_id": "_joined_id"} | ids},
        }
    )


def plan_of(pipeline: PipelineDefinition, folder: Path, version: int) -> JoinPlan:
    """Of the batch after a version; each batch brings the streams three hours on."""
    shape = pipeline.shape
    assert isinstance(shape, JoinedStreams)
    bigint, text = PostgresType("int8", "bigint"), PostgresType("text", "text")
    types = {
        "orders.id": (pa.int64(), bigint),
        "payments.id": (pa.string(), text),
        "payments.part": (pa.int32(), bigint),
    }
    columns = [FactColumn(name, name, *kinds, nullable=True) for name, kinds in types.items()]
    key = FactColumn("joined_id", JOINED_ID, pa.string(), text, nullable=False)
    fact = FactTable("shop", "paid", (key, *columns), ("joined_id",))
    names = ("orders", "payments")
    watermark = (NOON + timedelta(hours=3 * version) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    joined = [(name, kind.arrow()) for name, kind in shape.tuples.columns.items() if name != JOINED_ID]
    readers = SliceReader.of_streams(pipeline)
    return JoinPlan(
        streams=tuple(StreamPlan.of(pipeline.name, shape.join, name, fact, readers[name]) for name in names),
        bucket=BucketPlan.of(shape, 1),
        joined=pa.schema([*joined, (ARRIVED_AT, TIME)]),
        identified=bool(shape.join.emitting),
        folder=folder,
        buckets=1,
        version=version,
        batch_no=version + 1,
        watermarks=(watermark,) * 2,
        keep_from=0,
        reasons=tuple(
            {
                LATE: f"late: {name}",
                EXPIRED: f"no {other}",
                AFTER_LAST: f"after the last: {name}",
                EXPIRED_EARLY: f"no more {other}",
            }
            for name, other in (("orders", "payments"), ("payments", "orders"))
        ),
        join=shape.join,
    )


def parcel(stream: int, rows: Sequence[dict[str, Any]], range_no: int = 0) -> bytes:
    """Tuples that happened so many hours after noon, as they come from the first stage."""
    kinds = [{"id": pa.int64()}, {"id": pa.string(), "of": pa.int64(), "part": pa.int32()}][stream]
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    columns["at"] = pa.array([NOON + timedelta(hours=row["at"]) for row in rows], TIME)
    columns[ARRIVED_AT] = columns["at"]
    columns[RECORD] = pa.array([b"{}"] * len(rows), pa.binary())
    columns[RANGE], columns[POSITION] = (
        pa.array([range_no] * len(rows), pa.int32()),
        pa.array(range(len(rows)), pa.int64()),
    )
    _, content = packed(0, pa.table(columns).replace_schema_metadata({STREAM: str(stream).encode()}))
    return content


def taken(pipeline: PipelineDefinition, folder: Path, version: int, *parcels: bytes) -> tuple[pa.Table, list[Any]]:
    """The joined tuples of a batch, and fate, reason, and ids of what is held."""
    plan = plan_of(pipeline, folder, version)
    with taken_bucket(plan, 0) as state:
        arrivals: list[Arrivals] = list(BucketJoin(plan, parcels).take(state, Stopwatch()))
        state.checkpoint(plan.batch_no)
    held = [
        (group.fate.name, group.reason if isinstance(group.reason, str) else group.reason.to_pylist(),
         group.tuples["id"].to_pylist())
        for each in arrivals for group in each.rejected
    ]  # fmt: skip
    return pa.concat_tables([each.tuples for each in arrivals]), held


def order(number: int, at: float) -> dict[str, Any]:
    return {"id": number, "at": at}


def payment(number: str, of: int, at: float, part: int = 1) -> dict[str, Any]:
    return {"id": number, "of": of, "part": part, "at": at}


@pytest.mark.parametrize("expired", ["emit", {"orders": "emit", "payments": "reject"}])
def test_what_expires_is_joined_with_nothing_where_that_is_wanted(expired: Any, tmp_path: Path) -> None:
    pipeline = definition(expired=expired)
    orders = parcel(0, [order(1, 0), order(2, 0)])
    joined, held = taken(pipeline, tmp_path, 0, orders, parcel(1, [payment('"', 1, 1, 7), payment("b", 9, 1)]))
    assert joined[JOINED_ID].to_pylist() == ['[1,"\\"",7]']
    assert joined[COMPLETED_AT].to_pylist() == [NOON + timedelta(hours=1)]
    assert held == []
    joined, held = taken(pipeline, tmp_path, 1)
    rows = [{name: row[name] for name in (JOINED_ID, "orders.id", "payments.id")} for row in joined.to_pylist()]
    alone = [{JOINED_ID: "[2,null,null]", "orders.id": 2, "payments.id": None}]
    if expired == "emit":
        alone.append({JOINED_ID: '[null,"b",1]', "orders.id": None, "payments.id": "b"})
        assert held == []
    else:
        assert held == [("expired_rejected", "no orders", ["b"])]
    assert rows == alone
    assert joined[ARRIVED_AT].null_count == len(rows), "nothing arrived: freshness is not measured by them"
    assert taken(pipeline, tmp_path, 2)[0].num_rows == 0


def test_what_would_make_too_many_facts_is_rejected_with_the_reason(tmp_path: Path) -> None:
    pipeline = definition(expired="emit", most_facts=2)
    taken(pipeline, tmp_path, 0, parcel(1, [payment(name, 1, 2.5) for name in "abc"]))
    joined, held = taken(pipeline, tmp_path, 1, parcel(0, [order(1, 3), order(4, 3)]))
    assert held == [("too_many", ["too many: about 3 facts; most_facts: 2"], [1])]
    assert joined.num_rows == 0


def test_a_bucket_in_memory_serves_no_plan_that_has_changed_since(tmp_path: Path) -> None:
    former, present = (definition(expired="emit", most_facts=most) for most in (3, 2))
    taken(former, tmp_path, 0, parcel(1, [payment(name, 1, 2.5) for name in "abc"]))
    _, held = taken(present, tmp_path, 1, parcel(0, [order(1, 3)]))
    assert [fate for fate, *_ in held] == ["too_many"]
    plan = plan_of(present, tmp_path, 2)
    with taken_bucket(plan, 0) as state:
        pass
    with taken_bucket(pickle.loads(pickle.dumps(plan)), 0) as same:
        assert same is state


def test_punctuations_follow_the_order_of_arrival_and_what_they_settle_is_told_at_once(tmp_path: Path) -> None:
    pipeline = definition(
        punctuations={"orders": "unique", "payments": "unique"}, expired={"orders": "emit", "payments": "hold"}
    )
    payments = [parcel(1, [payment("c", 1, 1), payment("d", 1, 1)], 2), parcel(1, [payment("a", 1, 1)], 1)]
    apart = [parcel(0, [order(1, 0), order(2, 2)]), parcel(1, [payment("e", 2, 0)], 3)]
    joined, held = taken(pipeline, tmp_path, 0, *payments, *apart)
    assert joined[JOINED_ID].to_pylist() == ['[1,"a",1]', "[2,null,null]"]
    assert held == [("after_last", "after the last: payments", ["c", "d"]), ("expired_early", "no more orders", ["e"])]
    joined, held = taken(pipeline, tmp_path, 1, parcel(0, [order(1, 0)]), parcel(1, [payment("a", 1, 1)]))
    assert (joined.num_rows, held) == (0, [])
