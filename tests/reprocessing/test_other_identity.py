"""Jobs whose pipeline is not what its stream was registered with: refused before Spark starts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import psycopg2
import pytest

from spark_jobs.control.registration import register_pipeline
from spark_jobs.definition import load_definition
from spark_jobs.driver.stream_job import StreamJob
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.reprocessing.reprocessing_job import ReprocessingJob
from spark_jobs.reprocessing.request import ReprocessingRequest
from spark_jobs.settings import Home
from tests.spark.shop import query, sales_definition, write_definition

HELD = """
    INSERT INTO freshet.held_tuple (pipeline, event_id, event_hash, place, fate, reason, relation, payload,
        payload_encoding, arrived_at, batch_no)
    VALUES ('sales', '[1]', 0, 'shed', 'shed', 'no time', 'shop.customer', '{"sale_id": 1}', 'json', now(), 1)
"""


def write(folder: Path, **changes: Any) -> Path:
    return write_definition(folder, sales_definition(folder, **changes))


def register(path: Path, url: str) -> None:
    definition = load_definition(path)
    with closing(psycopg2.connect(url)) as connection:
        register_pipeline(
            connection, definition.name, definition.freshness.target, definition.model_dump_json(by_alias=True)
        )


def start(path: Path, url: str, folder: Path) -> None:
    StreamJob(load_definition(path), Home(folder / "home"), url).check()


def reprocess(path: Path, url: str) -> None:
    def make_context() -> NoReturn:
        raise AssertionError("Spark was started")

    ReprocessingJob(load_definition(path), url, ReprocessingRequest(limit=10), make_context).run()


def test_neither_stream_nor_reprocessing_takes_anothers_fact_table(tmp_path: Path, shop_url: str) -> None:
    path = write(tmp_path)
    register(path, shop_url)
    # Registered before a fact table had one pipeline only.
    query(
        shop_url,
        "INSERT INTO freshet.pipeline (name, freshness_target, definition) "
        "SELECT 'returns', freshness_target, definition FROM freshet.pipeline",
    )
    for job in (lambda: start(path, shop_url, tmp_path), lambda: reprocess(path, shop_url)):
        with pytest.raises(PipelineDefinitionError, match=r"fact table of pipeline returns.*`freshet retire returns`"):
            job()
    query(shop_url, "UPDATE freshet.pipeline SET retired_at = now() WHERE name = 'returns'")
    start(path, shop_url, tmp_path)
    reprocess(path, shop_url)


def test_held_tuples_keep_their_place_when_the_event_id_has_changed(tmp_path: Path, shop_url: str) -> None:
    register(write(tmp_path), shop_url)
    query(shop_url, HELD)
    source = sales_definition(tmp_path)["source"]
    source["schema"] = source["schema"].replace("sale_id bigint", "sale_id string")
    path = write(tmp_path, source=source)
    query(shop_url, "ALTER TABLE shop.fact_sales ALTER sale_id TYPE text")
    with pytest.raises(PipelineDefinitionError, match=r"was \(sale_id bigint\) and is now \(sale_id string\), but "):
        start(path, shop_url, tmp_path)
    with pytest.raises(PipelineDefinitionError, match=r"was started with shop.fact_sales, event id \(sale_id bigint\)"):
        reprocess(path, shop_url)
    assert query(shop_url, "SELECT event_id, place FROM freshet.held_tuple") == [("[1]", "shed")]


def test_a_retired_pipeline_is_not_reprocessed(tmp_path: Path, shop_url: str) -> None:
    path = write(tmp_path)
    register(path, shop_url)
    query(shop_url, "UPDATE freshet.pipeline SET retired_at = now()")
    with pytest.raises(PipelineDefinitionError, match=r"sales was retired\. Start its stream, and it is one again"):
        reprocess(path, shop_url)
