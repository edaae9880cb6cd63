"""A kind of source and a format cost what is their own: two files of this folder add both, and all rooms take them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest

from spark_jobs.authoring.check import check_pipeline
from spark_jobs.definition import PipelineDefinition, load_definition
from spark_jobs.definition.formats import FORMATS
from spark_jobs.definition.kinds import KINDS
from spark_jobs.definition.source import take_registered
from spark_jobs.ledger import batch_ledger
from spark_jobs.source.kinds import SOURCE_KINDS
from spark_jobs.source.records.formats import RECORD_FORMATS
from tests.spark.conftest import Shop
from tests.spark.http_folder import HTTP, HttpFolders, served
from tests.spark.pairs_format import PairsFacts, PairsFormat
from tests.spark.shop import query, sale, sales_definition

FACTS = "SELECT count(*) FROM shop.fact_sales"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as lines:
        lines.setitem(KINDS, "http", HTTP)
        lines.setitem(SOURCE_KINDS, "http", HttpFolders())
        lines.setitem(FORMATS, "pairs", PairsFacts())
        lines.setitem(RECORD_FORMATS, "pairs", PairsFormat())
        _rebuild()
        yield
    _rebuild()


def _rebuild() -> None:
    take_registered()
    PipelineDefinition.model_rebuild(force=True)


def from_url(definition: dict[str, Any], url: str) -> dict[str, Any]:
    source = {name: value for name, value in definition["source"].items() if name != "path"}
    return {**definition, "source": {**source, "url": url}}


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def pairs(*records: dict[str, Any]) -> bytes:
    return "".join(" ".join(f"{name}={value}" for name, value in each.items()) + "\n" for each in records).encode()


def test_a_folder_over_http_is_loaded_once_and_proved(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a.json": lines(*(sale(n) for n in range(100))), "b.json": lines(*map(sale, range(90, 150))) + b"broken\n"}
    with served(files) as url:
        shop.define(from_url(sales_definition(shop.folder), url))
        told = check_pipeline(load_definition(shop.path), shop.url, shop.home)
        assert f"events: 2 files at {url}" in told.notes
        close, failures = batch_ledger.close_batch, iter([True])

        def close_or_fail(*arguments: Any, **named: Any) -> None:
            if next(failures, False):
                raise psycopg2.OperationalError("the connection is lost")
            close(*arguments, **named)

        monkeypatch.setattr(batch_ledger, "close_batch", close_or_fail)
        shop.load()  # the batch is loaded a second time: its facts are known
        assert query(shop.url, FACTS) == [(150,)]
        units = "SELECT split_part(unit, '@', 1), state, kind FROM freshet.source_range ORDER BY range_id"
        assert query(shop.url, units) == [("a.json", "loaded", "http"), ("b.json", "loaded", "http")]
        assert query(shop.url, "SELECT payload, payload_encoding FROM freshet.held_tuple") == [("broken", "json")]
        assert not shop.verify().differences
        files["b.json"] = lines(sale(150))  # another file, under the name of the former one
        shop.load()
        assert query(shop.url, FACTS) == [(151,)]
        proof = shop.verify()
        assert not proof.differences
        assert [note.kind for note in proof.notes] == ["gone"]


def test_records_of_another_format_are_loaded_and_held_as_they_came(shop: Shop) -> None:
    definition = sales_definition(shop.folder)
    shop.define({**definition, "source": {**definition["source"], "format": "pairs"}})
    landed = shop.folder / "landing" / "some.pairs"
    landed.write_bytes(pairs(*(sale(n) for n in range(50)), sale(60, amount="much")))
    shop.load()
    assert query(shop.url, FACTS) == [(50,)]
    [(payload, encoding)] = query(shop.url, "SELECT payload, payload_encoding FROM freshet.held_tuple")
    assert payload.startswith("sale_id=60 ")
    assert encoding == "pairs"
    assert not shop.verify().differences
