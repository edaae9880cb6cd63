from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psycopg2
import pyarrow as pa
import pytest

from spark_jobs.errors import FreshetError
from spark_jobs.experiments.load import data, event_forms, kafka_connect
from spark_jobs.experiments.load.case import EVENTS_PER_FILE, LoadCase, cases
from spark_jobs.experiments.load.contenders import CONTENDERS, chosen_contenders, require_room
from spark_jobs.experiments.load.fact_check import check_facts
from spark_jobs.experiments.load.freshet_join import bench_definition
from spark_jobs.experiments.load.kafka_connect import load_by_connect
from spark_jobs.experiments.load.load_benchmark import run_load_benchmark
from spark_jobs.experiments.load.run_result import Batch, ResourceMeter, Run
from spark_jobs.experiments.load.scripts import postgres_elt
from spark_jobs.experiments.load.scripts.marked_files import groups_to_load
from spark_jobs.settings import Home
from spark_jobs.source.records.record_decoder import RecordDecoder

ROWS = 1_000


@pytest.fixture
def case(warehouse_url: str, tmp_path: Path) -> LoadCase:
    """Two files of events, the first of them warm-up."""
    (case,) = cases(["wide"], [ROWS], [1], EVENTS_PER_FILE, None)
    case = LoadCase(**{**case.__dict__, "warm_up": EVENTS_PER_FILE})
    data.make_relation(warehouse_url, case)
    data.empty_fact(warehouse_url, case)
    data.write_events(case, tmp_path)
    return case


def test_a_script_loads_the_files_without_a_marker_and_its_facts_are_checked(
    case: LoadCase, warehouse_url: str, tmp_path: Path
) -> None:
    first, second = sorted(tmp_path.iterdir())
    postgres_elt.load(case, [first], warehouse_url)
    with ResourceMeter(warehouse_url) as meter:
        (batch,) = postgres_elt.load(case, [first, second], warehouse_url)
    assert batch.facts == EVENTS_PER_FILE
    assert meter.cpu_seconds > 0
    assert groups_to_load(warehouse_url, [first, second]) == []
    assert check_facts(warehouse_url, case, [first, second]) == 2 * EVENTS_PER_FILE

    with closing(psycopg2.connect(warehouse_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(
            "UPDATE bench.fact SET relation_label = other.relation_label "
            "FROM bench.fact other WHERE fact.event_id + other.event_id = 1 AND fact.event_id IN (0, 1)"
        )
    with pytest.raises(FreshetError, match="The facts are wrong: 200,000 are stored, 200,000 are right"):
        check_facts(warehouse_url, case, [first, second])


def test_a_changing_case_repeats_events_and_has_keys_that_are_not_in_the_relation() -> None:
    (case,) = cases(["changing"], [ROWS], [1], 1_000_000, None)
    events = data.event_table(case, 0, EVENTS_PER_FILE)
    repeated = 1 - len(set(events["id"].to_pylist())) / EVENTS_PER_FILE
    missing = sum(key >= ROWS for key in events["key"].to_pylist()) / EVENTS_PER_FILE
    assert 0.008 < repeated < 0.012
    assert 0.045 < missing < 0.055
    facts = data.joined_with_relation(events, case)
    assert len(facts) == len(set(facts["id"].to_pylist())) < EVENTS_PER_FILE * (1 - missing) + 1

    now = datetime.now(UTC)
    earlier, later = (data.event_table(case, first, EVENTS_PER_FILE, now) for first in (0, EVENTS_PER_FILE))
    originals = {row["id"]: row for row in earlier.to_pylist()}
    copies = [row for row in later.to_pylist() if row["id"] < EVENTS_PER_FILE]
    assert 0.004 < len(copies) / EVENTS_PER_FILE < 0.006
    assert all(row == originals[row["id"]] for row in copies)
    assert min(data.joined_with_relation(later, case)["id"].to_pylist()) >= EVENTS_PER_FILE


@pytest.mark.parametrize("form", ["topic-json", "topic-avro"])
def test_records_of_a_topic_are_the_events(
    form: event_forms.Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(event_forms.SERVERS_VARIABLE, "localhost:9092")
    (tmp_path / "event.avsc").write_text(json.dumps(event_forms.AVRO_SCHEMA))
    (case,) = cases(["fits"], [ROWS], [1], 1_000_000, None)
    events = data.event_table(case, 0, 100)
    source = bench_definition(case, event_forms.source_of(tmp_path, form)).source
    decoded = RecordDecoder.of(source).decode(pa.array(event_forms.records(events, form), pa.binary()))
    assert decoded.reasons.null_count == 100
    assert decoded.tuples.select(events.column_names).to_pylist() == events.to_pylist()


def test_rates_count_from_the_end_of_the_warm_up() -> None:
    meter = ResourceMeter.__new__(ResourceMeter)
    meter.started, meter.cpu_seconds = 0.0, 8.0
    meter.peak_own_bytes = meter.peak_worker_bytes = meter.peak_java_bytes = 0
    meter._samples = [
        (moment, np.array(spent)) for moment, *spent in ((0, 0, 0, 0, 0), (6, 1, 2, 0, 1), (8, 1, 3, 1, 3))
    ]
    run = Run.of([Batch(6.0, 8.0, 400), Batch(2.0, 6.0, 100)], meter, warm_up=100, cores=4)
    assert run.facts_per_second == 200
    assert run.cold_facts_per_second == 25
    assert run.ready_seconds == 2
    assert run.steady_cpu_seconds_per_million == pytest.approx(4 / 400 * 1e6)
    spent = (run.own_cpu_seconds_per_million, run.worker_cpu_seconds_per_million, run.java_cpu_seconds_per_million)
    assert [*spent, run.server_cpu_seconds_per_million] == pytest.approx(
        [0, 1 / 400 * 1e6, 1 / 400 * 1e6, 2 / 400 * 1e6]
    )
    assert run.idle_seconds_per_million == pytest.approx((4 * 2 - 4) / 400 * 1e6)


def test_who_keeps_the_relation_is_refused_where_it_does_not_fit() -> None:
    fits, tenth = cases(["fits", "tenth"], [2_000_000], [1], 1_000_000, None)
    require_room(CONTENDERS["duckdb-cached"], fits)
    with pytest.raises(FreshetError, match=r"keeps all needed columns of R, 30.5 MB, and may keep 3.05"):
        require_room(CONTENDERS["duckdb-cached"], tenth)


def test_a_contender_whose_packages_are_absent_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.experiments.load.contenders.find_spec", lambda _: None)
    with pytest.raises(FreshetError, match=r"needs polars and adbc_driver_postgresql.*uv run --group contenders"):
        chosen_contenders(["polars-adbc"])
    with pytest.raises(FreshetError, match=r"'polar' is no contender. Allowed: freshet, .*polars-adbc"):
        chosen_contenders(["polar"])


def test_kafka_connect_is_refused_where_more_than_a_key_is_loaded(case: LoadCase, tmp_path: Path) -> None:
    with pytest.raises(FreshetError, match="can't be run in the regime wide"):
        load_by_connect(case, "events", "localhost:9092", tmp_path, "", "")


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs, as the worker of Kafka Connect does."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_what_kafka_connect_stores_counts_from_when_it_was_committed(
    case: LoadCase, warehouse_url: str, tmp_path: Path, worker: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "log").touch()
    query = "INSERT INTO bench.fact SELECT id, 1, 1, 'x', 1, 1, now() FROM generate_series(%s, %s) AS id"
    began = time.time()
    with closing(psycopg2.connect(warehouse_url)) as connection, connection.cursor() as cursor:
        for first, last in ((1, 100), (101, 250)):
            with connection:
                cursor.execute(query, [first, last])
            time.sleep(0.05)
    ended = time.time()
    first, second = kafka_connect._watch(worker, 250, warehouse_url, tmp_path / "log")
    assert (first.facts, second.facts) == (100, 150)
    assert began < first.ended == second.started <= second.ended - 0.05 < ended


@pytest.mark.parametrize(
    ("logged", "told"),
    [("", "stores nothing"), ("Task is being killed and will not recover\nno such column", "no such column")],
)
def test_a_kafka_connect_that_stores_nothing_ends_the_run(
    case: LoadCase,
    warehouse_url: str,
    tmp_path: Path,
    worker: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    logged: str,
    told: str,
) -> None:
    monkeypatch.setattr(kafka_connect, "_SILENCE_SECONDS", 0.3)
    (tmp_path / "log").write_text(logged)
    with pytest.raises(FreshetError, match=told):
        kafka_connect._watch(worker, 250, warehouse_url, tmp_path / "log")


@pytest.mark.slow
def test_kafka_connect_loads_a_topic(tmp_path: Path) -> None:
    """From Maven Central's jars, with the benchmark's own broker and server; its facts are checked."""
    (case,) = cases(["fits"], [ROWS], [2], 1_000_000, None)
    said: list[str] = []
    result = run_load_benchmark(Home(tmp_path), [case], [CONTENDERS["kafka-connect"]], 1, None, False, said.append)
    assert "kafka-connect" in result["cases"][0]["contenders"], said
