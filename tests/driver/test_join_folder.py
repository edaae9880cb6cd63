"""The folder of a join's state is compared with the ledger and the definition before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import extensions

from spark_jobs.authoring.check import check_pipeline
from spark_jobs.definition import PipelineDefinition
from spark_jobs.driver.join_folder import JoinFolder
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.errors import PipelineDefinitionError, StateDamagedError
from spark_jobs.join_state.bucket import Bucket, BucketPlan
from spark_jobs.settings import Home
from tests.definition.test_correlation import load
from tests.ledger.ledger_rows import add_batch, register


@pytest.fixture
def sales(tmp_path: Path) -> PipelineDefinition:
    return load(tmp_path)


@pytest.fixture
def connection(warehouse_url: str) -> Iterator[extensions.connection]:
    with closing(psycopg2.connect(warehouse_url)) as opened:
        yield opened


@pytest.fixture
def version(connection: extensions.connection, tmp_path: Path, sales: PipelineDefinition) -> int:
    """Of the state after the first batch."""
    register(connection, "sales")
    folder = JoinFolder(Home(tmp_path), sales, 2)
    assert folder.open(connection, 0) == 2
    batch_no = add_batch(connection, pipeline="sales")
    for number in range(2):
        bucket = Bucket(BucketPlan.of(sales, 2), folder.path / str(number), 0)
        bucket.checkpoint(batch_no)
        bucket.close()
    return batch_no


CHANGES = {
    "correlate.within was 2h, now {fixed: 1h30m}": [("within: 2h", "within: {fixed: 90m}")],
    "correlate.within was 2h, now left out": [("within: 2h", "punctuations: {orders: unique, payments: unique}")],
    "payments: {on: [order_id], event_id: [payment_id], event_time: at}, now": [
        ("event_id: [payment_id]", "event_id: [payment_id, order_id]"),
        ("columns: {", "columns: {paid_order: payments.order_id, "),
    ],
    "correlate.match was left out, now {band: 3}, in the smallest unit of its values, of [order_id, order_id]": [
        ("payments: order_id}", "payments: order_id}\n  match: {band: 3}")
    ],
    "correlate.punctuations was left out, now {orders: unique}": [
        ("within: 2h", "within: 2h\n  punctuations: {orders: unique}")
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


def test_an_empty_state_may_be_for_anything(
    version: int, connection: extensions.connection, sales: PipelineDefinition, tmp_path: Path
) -> None:
    changed = load(tmp_path, *CHANGES["correlate.within was 2h, now left out"])
    assert JoinFolder(Home(tmp_path), changed, 2).check(connection, 0) == 2


@pytest.mark.parametrize("byte", [0, 1, 30, -1], ids=str)
def test_a_damaged_note_is_told_with_what_to_do_and_made_anew(
    byte: int, version: int, connection: extensions.connection, sales: PipelineDefinition, tmp_path: Path
) -> None:
    folder = JoinFolder(Home(tmp_path), sales, 2)
    note = folder.path / "buckets.json"
    content = bytearray(note.read_bytes())
    content[byte] ^= 0x80
    note.write_bytes(content)
    with pytest.raises(StateDamagedError, match=r"buckets\.json is damaged: .*freshet rebuild-state sales"):
        _ = folder.noted
    assert not folder.restore(connection, version)
    folder.note(connection)
    assert JoinFolder(Home(tmp_path), sales, 2).open(connection, version) == 2


def test_what_a_bucket_was_made_for_is_refused_where_it_is_damaged(
    version: int, connection: extensions.connection, sales: PipelineDefinition, tmp_path: Path
) -> None:
    folder = JoinFolder(Home(tmp_path), sales, 2)
    plan = BucketPlan.of(sales, 2)
    for damaged in (b"\xfb}", b"[1]", b"{"):
        (folder.path / "1" / "state.json").write_bytes(damaged)
        with pytest.raises(StateDamagedError, match=r"state\.json is refused.*freshet rebuild-state"):
            Bucket(plan, folder.path / "1", version)
    assert folder.restore(connection, version)


def test_streams_that_read_the_same_files_are_told(warehouse_url: str, tmp_path: Path) -> None:
    alike = load(tmp_path, ("path: /landing/payments", "path: /landing/orders"))
    told = "orders and payments read the same events, of /landing/orders: each takes all of them"
    assert told in check_pipeline(alike, warehouse_url, Home(tmp_path)).notes
