"""The folder of a join's state is compared with the ledger and the definition before anything is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.authoring.check import check_pipeline
from spark_jobs.control.registration import Identity, check_registration, register_pipeline
from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.shapes import JoinedStreams
from spark_jobs.driver.join_folder import JoinFolder
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.errors import PipelineDefinitionError, StateDamagedError
from spark_jobs.join_state.bucket import Bucket, BucketPlan
from spark_jobs.join_state.stored_bucket import made_for
from spark_jobs.settings import Home
from tests.definition.test_join import JOINED, load
from tests.ledger.ledger_rows import add_batch, register


@pytest.fixture
def sales(tmp_path: Path) -> PipelineDefinition:
    return load(tmp_path)


def joined(definition: PipelineDefinition) -> JoinedStreams:
    assert isinstance(definition.shape, JoinedStreams)
    return definition.shape


def folder_of(home: Path, definition: PipelineDefinition) -> JoinFolder:
    return JoinFolder(Home(home), definition.name, joined(definition), 2)


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    with closing(psycopg2.connect(warehouse_url)) as opened:
        yield opened


@pytest.fixture
def version(connection: extensions.connection, tmp_path: Path, sales: PipelineDefinition) -> int:
    """Of the state after the first batch."""
    register(connection, "sales")
    folder = folder_of(tmp_path, sales)
    assert folder.open(connection, 0) == 2
    batch_no = add_batch(connection, pipeline="sales")
    for number in range(2):
        bucket = Bucket(BucketPlan.of(joined(sales), 2), folder.path / str(number), 0)
        bucket.checkpoint(batch_no)
        bucket.close()
    return batch_no


CHANGES = {
    "join.window was 2h, now {fixed: 1h30m}": [("window: 2h", "window: {fixed: 90m}")],
    "join.window was 2h, now left out": [("window: 2h", "punctuations: {orders: unique, payments: unique}")],
    "payments: {on: [order_id], event_id: [payment_id], event_time: at}, now": [
        ("event_id: [payment_id]", "event_id: [payment_id, order_id]"),
        ("columns: {", "columns: {paid_order: payments.order_id, "),
    ],
    "join.match was left out, now {band: 3}, in the smallest unit of its values, of [order_id, order_id]": [
        ("payments: order_id}", "payments: order_id}\n  match: {band: 3}")
    ],
    "join.punctuations was left out, now {orders: unique}": [
        ("window: 2h", "window: 2h\n  punctuations: {orders: unique}")
    ],
    "other columns": [("amount decimal(12,2)", "amount decimal(12,2), note string")],
}


@pytest.mark.parametrize(("told", "changes"), CHANGES.items(), ids=CHANGES)
def test_a_state_for_other_streams_is_told_before_the_stream_starts(
    told: str, changes: list[tuple[str, str]], version: int, warehouse_url: str, tmp_path: Path
) -> None:
    changed = load(tmp_path, *changes)
    home = Home(tmp_path)
    with pytest.raises(
        PipelineDefinitionError, match=rf"{re.escape(told)}.*Go back to the former .* another pipeline name\."
    ):
        StreamJob(changed, home, warehouse_url).check()
    assert any(told in problem for problem in check_pipeline(changed, warehouse_url, home).problems)


FORMER = (JOINED, "correlate:\n  on: {orders: order_id, payments: order_id}\n  within: 2h\n  lateness: 10m\n")


def test_a_file_in_the_former_spelling_goes_on_from_its_state(
    version: int, connection: extensions.connection, warehouse_url: str, sales: PipelineDefinition, tmp_path: Path
) -> None:
    former = load(tmp_path, FORMER)
    assert folder_of(tmp_path, former).check(connection, version) == 2
    StreamJob(former, Home(tmp_path), warehouse_url)
    assert not any("state" in problem for problem in check_pipeline(former, warehouse_url, Home(tmp_path)).problems)


def test_what_a_state_is_made_for_is_told_as_the_last_version_did(tmp_path: Path) -> None:
    punctuated = load(
        tmp_path,
        ("window: 2h", "window: 2h\n  punctuations: {orders: unique, payments: {count: orders.n}}"),
        ("order_id bigint, at", "order_id bigint, n int, at"),
    )
    assert made_for(BucketPlan.of(joined(punctuated), 2)) == {
        "streams": [
            ("orders", ("order_id",), ("order_id",), "at"),
            ("payments", ("order_id",), ("payment_id",), "at"),
        ],
        "window": "SlidingWindow(length=7200000000)",
        "predicate": None,
        "punctuations": ["PunctuationRule(when=None, count=None)", "PunctuationRule(when=None, count=(0, 'n'))"],
    }


def test_what_the_last_version_has_registered_is_the_same_pipeline(
    connection: extensions.connection, sales: PipelineDefinition
) -> None:
    """It kept what joined tuples are like beside the streams; without its event id, what it kept tells it."""
    stated = sales.model_dump(mode="json", by_alias=True)
    tuples = sales.tuples
    schema = ", ".join(f"`{name}` {kind}" for name, kind in tuples.columns.items())
    source = {"format": "parquet", "path": "/", "schema": schema, "event_id": list(tuples.event_id)}
    former = {"source": source, "correlate": {"on": stated["join"]["on"], "within": "2h", "emit": "complete"}}
    text = json.dumps({key: value for key, value in stated.items() if key not in ("join", "accumulate")} | former)
    register_pipeline(connection, "sales", timedelta(seconds=5), text)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT event_id FROM freshet.pipeline")
        assert cursor.fetchall() == [(["orders.order_id bigint", "payments.payment_id string"],)]
        for known in ("event_id", "NULL"):
            cursor.execute(f"UPDATE freshet.pipeline SET event_id = {known}")
            identity = check_registration(cursor, "sales", stated)
            assert identity == Identity.of(cursor, json.loads(text))


def test_an_empty_state_may_be_for_anything(
    version: int, connection: extensions.connection, sales: PipelineDefinition, tmp_path: Path
) -> None:
    changed = load(tmp_path, *CHANGES["join.window was 2h, now left out"])
    assert folder_of(tmp_path, changed).check(connection, 0) == 2


@pytest.mark.parametrize("byte", [0, 1, 30, -1], ids=str)
def test_a_damaged_note_is_told_with_what_to_do_and_made_anew(
    byte: int, version: int, connection: extensions.connection, sales: PipelineDefinition, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, sales)
    note = folder.path / "buckets.json"
    content = bytearray(note.read_bytes())
    content[byte] ^= 0x80
    note.write_bytes(content)
    with pytest.raises(StateDamagedError, match=r"buckets\.json is damaged: .*freshet rebuild-state sales"):
        _ = folder.noted
    assert not folder.restore(connection, version)
    folder.note(connection)
    assert folder_of(tmp_path, sales).open(connection, version) == 2


def test_what_a_bucket_was_made_for_is_refused_where_it_is_damaged(
    version: int, connection: extensions.connection, sales: PipelineDefinition, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, sales)
    plan = BucketPlan.of(joined(sales), 2)
    for damaged in (b"\xfb}", b"[1]", b"{"):
        (folder.path / "1" / "state.json").write_bytes(damaged)
        with pytest.raises(StateDamagedError, match=r"state\.json is refused.*freshet rebuild-state"):
            Bucket(plan, folder.path / "1", version)
    assert folder.restore(connection, version)


def test_streams_that_read_the_same_files_are_told(warehouse_url: str, tmp_path: Path) -> None:
    alike = load(tmp_path, ("path: /landing/payments", "path: /landing/orders"))
    told = "orders and payments read the same events, of /landing/orders: each takes all of them"
    assert told in check_pipeline(alike, warehouse_url, Home(tmp_path)).notes
