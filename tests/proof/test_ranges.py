"""What the ledger says of the files, compared with the files: ranges, positions, counts, and files that are gone."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.proof.proof import Finding, Proof
from spark_jobs.settings import HOME_VARIABLE, WAREHOUSE_URL_VARIABLE
from tests.proof.landed_sales import LandedSales, balance, ids, sale, sales_definition

HOUR = 3600.0


@pytest.fixture
def sales(tmp_path: Path, warehouse_url: str) -> LandedSales:
    return LandedSales(tmp_path, warehouse_url)


def lines(path: Path) -> list[int]:
    """Where the lines of a file begin, and where the last one ends."""
    ends = [0]
    for line in path.read_bytes().splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
    return ends


def notes(proof: Proof) -> dict[str, tuple[str, ...]]:
    return {note.kind: note.examples for note in proof.notes}


def shown(proof: Proof) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(proof.render())
    return capture.get()


def batch_at(sales: LandedSales, seconds: float) -> int:
    """A batch that was opened this many seconds from now."""
    number = sales.book()
    sales.execute("UPDATE freshet.batch SET started_at = now() + %s * interval '1 s'", seconds)
    return number


# Ranges


def test_a_file_is_loaded_as_far_as_its_ranges_reach_and_pending_from_there(sales: LandedSales) -> None:
    path = sales.land(*(sale(number) for number in range(6)), pending=True)
    at = lines(path)
    sales.load(path, at[0], at[2], records=2)
    sales.load(path, at[2], at[4], records=2)
    sales.store_sale(0)
    sales.store_sale(1)
    sales.store_sale(2)
    proof = sales.verify()
    assert [(each.kind, ids(each.examples)) for each in proof.differences] == [("missing", ["[3]"])]
    assert (proof.files, proof.pending_files, proof.records, proof.pending_records) == (1, 1, 6, 2)


def test_a_range_of_an_open_batch_is_pending(sales: LandedSales) -> None:
    path = sales.land(sale(1), sale(2), pending=True)
    sales.load(path, state="planned", batch_no=sales.book(state="started"))
    proof = sales.verify()
    assert (proof.holds, proof.pending_files, proof.pending_records) == (True, 1, 2)


def test_a_range_that_is_loaded_by_no_batch_was_loaded_before_there_were_ranges(sales: LandedSales) -> None:
    sales.land(sale(1))
    assert ids(sales.differences()["missing"]) == ["[1]"]


@pytest.mark.parametrize("counted", [1, 3])
def test_a_range_must_hold_as_many_records_as_were_read_of_it(sales: LandedSales, counted: int) -> None:
    path = sales.land(sale(0), b"no json", sale(1), pending=True)
    at = lines(path)
    sales.load(path, at[0], at[2], records=counted)
    sales.load(path, at[2], at[3], records=1)
    sales.store_sale(0)
    sales.store_sale(1)
    sales.hold_raw(b"no json")
    told = f"part-0.json, bytes 0 to {at[2]:,}: {counted} by the ledger, 2 in the file"
    assert sales.differences() == {"arrived": (told,)}


def test_the_records_of_packed_and_of_parquet_files_are_counted_too(sales: LandedSales) -> None:
    path = sales.landing / "packed.json.gz"
    path.write_bytes(gzip.compress(b'{"sale_id": 1}\n' * 100))
    sales.load(path, records=99)
    sales.store_sale(1, customer_sk=None, city=None)
    assert sales.differences()["arrived"] == ("packed.json.gz: 99 by the ledger, 100 in the file",)


def test_a_batch_in_which_a_record_got_lost_is_named(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.store_sale(1)
    number = sales.book(arrived=5, duplicates=4)
    assert sales.differences() == {
        "balance": (f"batch {number}: 5 arrived, 4 found a place or are duplicates",),
    }
    sales.execute("UPDATE freshet.batch SET arrived = NULL")
    assert sales.differences() == {}, "a batch of a version that did not count"


# Files that are read more than once


def test_a_file_that_came_again_is_loaded_twice_and_its_records_count_for_both(sales: LandedSales) -> None:
    path = sales.land(sale(0), sale(1), sale(2), pending=True)
    for _ in range(2):
        sales.load(path, records=3)
    for number in range(3):
        sales.store_sale(number)
    proof = sales.verify()
    assert (proof.holds, proof.records, proof.pending_files) == (True, 3, 0)
    sales.load(path, records=4)
    size = path.stat().st_size
    assert sales.differences() == {"arrived": (f"part-0.json, bytes 0 to {size:,}: 4 by the ledger, 3 in the file",)}


def test_a_file_that_came_again_when_it_was_read_in_part_counts_for_each_range(sales: LandedSales) -> None:
    path = sales.land(*(sale(number) for number in range(5)), pending=True)
    at = lines(path)
    sales.load(path, at[0], at[2], records=2)
    sales.load(path, at[0], at[4], records=4)
    sales.load(path, at[2], at[3], state="planned", batch_no=sales.book(state="started"))
    for number in (0, 1, 2):
        sales.store_sale(number)
    proof = sales.verify()
    assert [(each.kind, ids(each.examples)) for each in proof.differences] == [("missing", ["[3]"])]
    assert (proof.records, proof.pending_records) == (5, 1)


def test_a_packed_file_that_came_again_counts_for_both(sales: LandedSales) -> None:
    path = sales.landing / "packed.json.gz"
    path.write_bytes(gzip.compress((json.dumps(sale(1)).encode() + b"\n") * 1_000))
    for _ in range(2):
        sales.load(path, records=1_000)
    sales.store_sale(1)
    assert sales.verify().holds


# Files that are never read


def test_a_file_that_later_ones_have_overtaken_is_named(sales: LandedSales) -> None:
    sales.land(sale(1), file="early.json", pending=True, modified=time.time() - HOUR)
    late = sales.land(sale(2), file="late.json", pending=True)
    sales.load(late, batch_no=batch_at(sales, 60))
    sales.store_sale(2)
    assert sales.differences() == {"passed_over": ("early.json",)}


def test_a_file_that_came_after_the_batch_was_planned_is_pending(sales: LandedSales) -> None:
    sales.land(sale(1), file="early.json", pending=True, modified=time.time() - HOUR)
    late = sales.land(sale(2), file="late.json", pending=True)
    sales.load(late, batch_no=batch_at(sales, -60))
    sales.store_sale(2)
    assert sales.verify().holds


def test_a_file_that_comes_after_all_that_were_taken_is_pending(sales: LandedSales) -> None:
    first = sales.land(sale(1), file="first.json", pending=True, modified=time.time() - HOUR)
    sales.land(sale(2), file="second.json", pending=True, modified=time.time() + HOUR)
    sales.load(first, batch_no=batch_at(sales, 60))
    sales.store_sale(1)
    proof = sales.verify()
    assert (proof.holds, proof.pending_files) == (True, 1)


def test_the_rest_of_a_file_can_be_passed_over_as_well(sales: LandedSales) -> None:
    early = sales.land(sale(1), sale(2), file="early.json", pending=True, modified=time.time() - HOUR)
    late = sales.land(sale(3), file="late.json", pending=True)
    number = batch_at(sales, 60)
    sales.load(early, 0, lines(early)[1], batch_no=number)
    sales.load(late, batch_no=number)
    sales.store_sale(1)
    sales.store_sale(3)
    assert sales.differences() == {"passed_over": ("early.json",)}


def test_one_that_is_planned_or_to_be_read_once_more_is_not_passed_over(sales: LandedSales) -> None:
    planned = sales.land(sale(1), file="planned.json", pending=True, modified=time.time() - HOUR)
    retried = sales.land(sale(2), file="retried.json", pending=True, modified=time.time() - HOUR)
    late = sales.land(sale(3), file="late.json", pending=True)
    sales.load(planned, state="planned", batch_no=sales.book(state="started"))
    sales.load(retried, state="to retry", reason="it was damaged")
    os.utime(retried, (time.time() - 2 * HOUR,) * 2)
    sales.load(late, batch_no=batch_at(sales, 60))
    sales.store_sale(3)
    proof = sales.verify()
    assert (proof.differences, proof.pending_files) == ((), 2)


def test_names_that_are_no_utf8_are_found_in_the_ledger(sales: LandedSales) -> None:
    sales.land(sale(1), file=os.fsdecode(b"K\xf6ln \\.json"))
    proof = sales.verify()
    assert [ids(each.examples) for each in proof.differences] == [["[1]"]]
    assert proof.pending_files == 0


def test_files_whose_names_are_no_utf8_are_told_as_the_ledger_names_them(sales: LandedSales) -> None:
    sales.land(sale(1), file=os.fsdecode(b"K\xf6ln.json"))
    proof = sales.verify()
    assert "[1] of K\\xf6ln.json" in shown(proof)


def test_entries_that_can_not_be_looked_at_have_not_landed(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.store_sale(1)
    (sales.landing / "loop.json").symlink_to("loop.json")
    (sales.landing / "nowhere.json").symlink_to("gone")
    proof = sales.verify()
    assert (proof.holds, proof.files, proof.notes) == (True, 1, ())


def test_a_loaded_file_that_can_not_be_looked_at_is_there_no_longer(sales: LandedSales) -> None:
    path = sales.land(sale(1))
    sales.store_sale(1)
    path.unlink()
    path.symlink_to(path.name)
    assert notes(sales.verify()) == {"gone": ("part-0.json",)}


# Files that are not what they were


def test_nothing_is_proved_of_a_file_that_was_changed_after_it_was_loaded(sales: LandedSales) -> None:
    path = sales.land(sale(1), sale(2))
    sales.execute("UPDATE freshet.source_range SET records = 2")
    sales.store_sale(1)
    sales.hold("[2]", "shed")
    path.write_text('{"sale_id": 3}\n')
    proof = sales.verify()
    assert (proof.holds, notes(proof)) == (True, {"changed": ("part-0.json",)})
    # The record of the file that is there is to be loaded.
    assert (proof.records, proof.unprovable, proof.gone_facts, proof.gone_held) == (1, 1, 1, 1)
    assert proof.pending_files == 1
    rows = balance(proof)
    assert (rows["landed"], rows["- not yet loaded"], rows["+ not landed"], rows["stored"]) == (1, 1, 2, 2)
    assert "1 files were changed after they were loaded" in shown(proof)


def test_facts_of_files_that_are_gone_are_no_more_than_those_held(sales: LandedSales) -> None:
    gone = sales.land(sale(1), sale(2), file="gone.json")
    sales.execute("UPDATE freshet.source_range SET records = 2")
    sales.land(sale(3))
    for number in (1, 2, 3):
        sales.store_sale(number)
    gone.unlink()
    proof = sales.verify()
    assert (proof.holds, proof.gone_facts, proof.unprovable) == (True, 2, 2)
    assert notes(proof) == {"gone": ("gone.json",)}
    assert "2 of them can't be proved: their records are not in the source any more" in shown(proof).replace("  ", " ")
    sales.store_sale(4)
    (extra,) = sales.verify().differences
    assert (extra.kind, extra.count) == ("extra_fact", 1)


def test_what_a_gone_file_held_is_not_known_where_nobody_has_counted(sales: LandedSales) -> None:
    sales.land(sale(1)).unlink()
    for number in (1, 2, 3):
        sales.store_sale(number)
    assert (sales.verify().holds, sales.verify().gone_facts) == (True, 3)


def test_a_held_tuple_of_a_file_that_is_there_is_extra_whatever_else_is_gone(sales: LandedSales) -> None:
    sales.land(sale(1), file="gone.json").unlink()
    sales.land(sale(2))
    sales.hold("[2]", "shed")
    sales.hold("[9]", "shed", b'{"sale_id": 9}', unit="part-1.json")
    assert sales.differences() == {"extra_held": ("[9] is shed",)}


def archiving(folder: Path, url: str, **changes: Any) -> LandedSales:
    source = sales_definition(folder)["source"] | {"after_load": {"archive": str(folder / "archive")}} | changes
    return LandedSales(folder, url, source=source)


def test_archived_files_are_read_where_they_are(tmp_path: Path, warehouse_url: str) -> None:
    sales = archiving(tmp_path, warehouse_url)
    archive = tmp_path / "archive"
    archive.mkdir()
    moment = time.time_ns() - 10**12
    for number, name in ((1, "part.json"), (2, f"part.json.{moment}")):
        path = sales.land(sale(number), file="part.json", pending=True)
        os.utime(path, ns=(moment + number - 2,) * 2)
        sales.load(path, records=1)
        path.rename(archive / name)
        sales.execute("UPDATE freshet.source_range SET removed_at = now()")
    sales.land(sale(3), file="part.json", pending=True)  # a new one with the name of old ones
    sales.store_sale(1)
    sales.store_sale(2, city="Rom")
    proof = sales.verify()
    assert [(each.kind, ids(each.examples)) for each in proof.differences] == [("wrong_fact", ["[2]"])]
    assert (proof.notes, proof.records, proof.pending_records, proof.gone_facts) == ((), 3, 1, 0)


@pytest.mark.parametrize("changed", [0, 10**9])
def test_an_archived_file_of_which_a_copy_was_read_once_more_is_loaded(
    tmp_path: Path, warehouse_url: str, changed: int
) -> None:
    sales = archiving(tmp_path, warehouse_url)
    archive = tmp_path / "archive"
    archive.mkdir()
    path = sales.land(sale(1), sale(2), file="part.json", pending=True)
    moment = time.time_ns() - 10**12
    os.utime(path, ns=(moment,) * 2)
    sales.load(path, state="retried", records=2)
    path.rename(archive / "part.json")
    shutil.copy2(archive / "part.json", path)
    os.utime(path, ns=(moment + changed,) * 2)
    sales.load(path, records=2)
    sales.store_sale(1)
    assert ids(sales.differences()["missing"]) == ["[2]"]
    path.rename(archive / f"part.json.{moment + changed}")
    sales.store_sale(2)
    proof = sales.verify()
    assert (proof.differences, proof.notes, proof.gone_facts, proof.pending_files) == ((), (), 0, 0)


def test_a_file_that_was_changed_and_then_read_once_more_leaves_its_old_records_unproved(sales: LandedSales) -> None:
    path = sales.land(sale(1), sale(2))
    sales.execute("UPDATE freshet.source_range SET records = 2, state = 'retried'")
    path.write_bytes(path.read_bytes().replace(b'"sale_id": 2', b'"sale_id": 77'))
    sales.load(path, records=2)
    for number in (1, 2, 77):
        sales.store_sale(number)
    proof = sales.verify()
    assert (proof.differences, proof.gone_facts, proof.records) == ((), 1, 2)


# Files that are not read


def parquet_sales(folder: Path, url: str) -> LandedSales:
    source = {"format": "parquet", "path": str(folder / "landing"), "schema": "id int, at timestamp",
              "event_id": ["id"], "event_time": "at"}  # fmt: skip
    fact = {"table": "shop.fact_sales", "columns": {"sale_id": "id"}}
    return LandedSales(folder, url, source=source, lookups=[], fact=fact)


def test_a_file_that_was_set_aside_is_told_and_nothing_of_it_is_missing(tmp_path: Path, warehouse_url: str) -> None:
    sales = parquet_sales(tmp_path, warehouse_url)
    path = sales.landing / "damaged.parquet"
    path.write_bytes(b"PAR1 no more")
    proof = sales.verify()
    assert (proof.holds, proof.pending_files) == (True, 1)
    assert notes(proof)["unreadable"][0].startswith("damaged.parquet: ")
    sales.load(path, state="set aside", records=0, reason="it is no Parquet file")
    proof = sales.verify()
    assert (proof.holds, proof.pending_files, proof.records) == (True, 0, 0)
    assert proof.notes == (Finding("set_aside", 1, ("damaged.parquet: it is no Parquet file",)),)


def test_a_file_that_was_dismissed_is_told_no_more(sales: LandedSales, tmp_path: Path) -> None:
    definition = tmp_path / "sales.yaml"
    definition.write_text(json.dumps(sales_definition(tmp_path)))
    environment = {WAREHOUSE_URL_VARIABLE: sales.url, HOME_VARIABLE: str(sales.home.root)}

    def source(*options: str) -> tuple[int, str]:
        told = CliRunner().invoke(app, ["source", str(definition), *options], env=environment)
        return told.exit_code, told.stdout

    path = sales.land(b"no json", file="picture.png", pending=True)
    sales.load(path, state="set aside", records=0, reason="It is a picture.")
    assert source() == (0, "set aside   picture.png: It is a picture.\n")
    path.unlink()
    assert "The file is gone: land it again, or --dismiss picture.png." in source()[1]
    assert "set_aside" in notes(sales.verify())
    assert source("--dismiss", "picture.png") == (0, "all files that were read are loaded, or dismissed\n")
    assert source("--dismiss", "picture.png")[0] == 2, "there is none any more"
    assert (sales.verify().holds, sales.verify().notes) == (True, ())


def test_a_changed_file_that_the_driver_has_set_aside_is_told_as_such(sales: LandedSales) -> None:
    path = sales.land(sale(1))
    path.write_text('{"sale_id": 3, "more": 4}\n')
    sales.load(path, state="set aside", reason="it was changed")
    sales.store_sale(1)
    proof = sales.verify()
    assert proof.holds
    assert notes(proof) == {"set_aside": ("part-0.json: it was changed",), "gone": ("part-0.json",)}


def test_what_was_given_up_is_told(sales: LandedSales) -> None:
    path = sales.land(sale(1), pending=True)
    sales.load(path, state="lost", reason="the disk is gone")
    path.unlink()
    proof = sales.verify()
    assert (proof.holds, notes(proof)) == (True, {"lost": ("part-0.json: the disk is gone",)})


@pytest.mark.parametrize("state", ["lost", "retried"])
def test_some_of_what_was_given_up_may_have_been_stored_before(sales: LandedSales, state: str) -> None:
    path = sales.land(sale(1), sale(2), sale(3), pending=True)
    number = sales.book(arrived=0, facts=1, shed=1)
    sales.load(path, state=state, batch_no=number, reason="the disk is gone")
    path.unlink()
    sales.execute("INSERT INTO shop.fact_sales (sale_id) VALUES (1)")
    sales.hold("[2]", "shed", batch_no=number)
    proof = sales.verify()
    assert (proof.differences, proof.gone_facts, proof.gone_held) == ((), 1, 1)


def test_what_was_given_up_explains_as_many_facts_as_its_batch_has_stored(sales: LandedSales) -> None:
    number = sales.book(facts=3)
    given_up, other = sales.land(sale(1), sale(2), pending=True), sales.land(sale(3), pending=True)
    sales.load(given_up, state="lost", batch_no=number, reason="the disk is gone")
    sales.load(other, records=1, batch_no=number)
    given_up.unlink()
    sales.execute("UPDATE freshet.batch SET arrived = NULL")
    sales.execute("INSERT INTO shop.fact_sales (sale_id) VALUES (1), (2)")
    sales.store_sale(3)
    sales.execute("UPDATE freshet.batch SET arrived = 0, facts = 0 WHERE batch_no <> %s", number)
    assert (sales.verify().differences, sales.verify().gone_facts) == ((), 2)
    sales.store_sale(100)
    (extra,) = sales.verify().differences
    assert (extra.kind, extra.count) == ("extra_fact", 1)


def test_what_was_given_up_holds_no_more_records_than_it_has_room_for(sales: LandedSales) -> None:
    path = sales.land(b"{}", b"{}", pending=True)
    sales.load(path, state="lost", batch_no=sales.book(), reason="the disk is gone")
    path.unlink()
    sales.execute("DELETE FROM freshet.batch")  # by retention
    for number in range(10):
        sales.store_sale(number)
    (extra,) = sales.verify().differences
    assert (extra.kind, extra.count) == ("extra_fact", 7)


@pytest.mark.parametrize("state", ["set aside", "retried"])
def test_facts_of_a_file_that_was_changed_while_it_was_read_are_explained(sales: LandedSales, state: str) -> None:
    number = sales.book(arrived=1, facts=2)
    path = sales.land(sale(1), sale(2), sale(3), pending=True)
    sales.load(path, state=state, records=1, batch_no=number, reason="it was changed after it was listed")
    sales.execute("INSERT INTO shop.fact_sales (sale_id) VALUES (1), (2)")
    path.write_text('{"sale_id": 77}\n')
    proof = sales.verify()
    assert (proof.differences, proof.gone_facts, proof.pending_files) == ((), 2, 1)
    sales.store_sale(100)
    (extra,) = sales.verify().differences
    assert (extra.kind, extra.count) == ("extra_fact", 1)


def test_what_was_given_up_and_then_read_after_all_is_proved(sales: LandedSales) -> None:
    path = sales.land(sale(1), sale(2), pending=True)
    number = sales.book(facts=2)
    sales.load(path, state="lost", batch_no=number, reason="the disk is gone")
    sales.store_sale(1)
    sales.store_sale(9)
    sales.execute("UPDATE freshet.batch SET arrived = 0, facts = 0 WHERE batch_no <> %s", number)
    assert "extra_fact" not in sales.differences()
    sales.load(path, records=2, batch_no=sales.book())
    assert {kind: ids(examples) for kind, examples in sales.differences().items()} == {
        "missing": ["[2]"],
        "extra_fact": ["[9]"],
    }


def test_a_loaded_file_that_can_not_be_read_any_more_is_told(tmp_path: Path, warehouse_url: str) -> None:
    sales = parquet_sales(tmp_path, warehouse_url)
    path = sales.landing / "damaged.parquet"
    path.write_bytes(b"PAR1 no more")
    sales.load(path, records=1)
    sales.store(sale_id=1)
    proof = sales.verify()
    assert (proof.holds, proof.gone_facts, list(notes(proof))) == (True, 1, ["unreadable"])


@pytest.mark.parametrize("name", [b"damaged.parquet", b"K\xf6ln.parquet"])
def test_a_parquet_file_that_a_former_version_has_rejected_whole_is_known_by_its_path(
    tmp_path: Path, warehouse_url: str, name: bytes
) -> None:
    sales = parquet_sales(tmp_path, warehouse_url)
    path = sales.landing / os.fsdecode(name)
    path.write_bytes(b"PAR1 no more")
    sales.load(path)
    sales.hold_raw(os.fsencode(path))
    proof = sales.verify()
    assert (proof.differences, proof.records, proof.notes) == ((), 1, ())


def test_a_parquet_row_that_does_not_fit_the_schema_costs_itself(tmp_path: Path, warehouse_url: str) -> None:
    sales = parquet_sales(tmp_path, warehouse_url)
    path = sales.landing / "wide.parquet"
    pq.write_table(pa.table({"id": [1, 2, 2**40, 4], "at": pa.array([0] * 4, pa.timestamp("us", "UTC"))}), path)
    sales.load(path, records=4)
    for number in (1, 2, 4):
        sales.store(sale_id=number)
    (missing,) = sales.verify().differences
    assert (missing.kind, missing.count) == ("missing", 1)
    assert missing.examples[0].startswith('{"sha256":')


# Losses that used to look like files that are still to come


def test_a_batch_that_was_committed_empty_does_not_hide_its_events(sales: LandedSales) -> None:
    path = sales.land(sale(1), sale(2), pending=True)
    sales.load(path, records=0, batch_no=sales.book())
    assert sales.differences() == {
        "missing": ("[1] of part-0.json", "[2] of part-0.json"),
        "arrived": ("part-0.json: 0 by the ledger, 2 in the file",),
    }


def test_events_that_are_missing_are_named_however_the_path_is_written(tmp_path: Path, warehouse_url: str) -> None:
    (tmp_path / "beside").mkdir()
    path = f"{tmp_path}/beside/../landing"
    sales = LandedSales(tmp_path, warehouse_url, source=sales_definition(tmp_path)["source"] | {"path": path})
    sales.land(sale(1), file="a:b.json")
    assert sales.differences() == {"missing": ("[1] of a:b.json",)}


def test_a_file_from_the_future_does_not_hide_those_that_it_has_displaced(sales: LandedSales) -> None:
    future = sales.land(sale(1), file="2150.json", pending=True, modified=5_700_000_000)
    sales.land(sale(2), file="now.json", pending=True)
    sales.load(future, batch_no=batch_at(sales, 60))
    sales.store_sale(1)
    assert sales.differences() == {"passed_over": ("now.json",)}


def test_what_a_restored_warehouse_does_not_know_is_pending(sales: LandedSales) -> None:
    sales.land(sale(1))
    sales.store_sale(1)
    sales.land(sale(2), pending=True)  # loaded after the time that the warehouse was restored to
    proof = sales.verify()
    assert (proof.holds, proof.pending_files, proof.pending_records) == (True, 1, 1)


def test_a_fact_table_without_its_key_is_told_with_what_is_stored_twice(sales: LandedSales) -> None:
    sales.land(sale(1), sale(2))
    sales.store_sale(1)
    sales.store_sale(2)
    sales.execute("ALTER TABLE shop.fact_sales DROP CONSTRAINT fact_sales_pkey")
    [found] = [each for each in sales.verify().differences if each.kind == "fact_key"]
    assert (found.count, found.examples) == (1, ("shop.fact_sales (sale_id): none is by now",))
    sales.execute("INSERT INTO shop.fact_sales SELECT * FROM shop.fact_sales WHERE sale_id = 1")
    [found] = [each for each in sales.verify().differences if each.kind == "fact_key"]
    assert (found.count, found.examples) == (
        1, ("shop.fact_sales (sale_id): 1 events are stored more than once, in 1 rows too many",)
    )  # fmt: skip
