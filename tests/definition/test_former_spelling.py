"""Pipelines of several streams as the last version wrote them: they are the same, and told what to write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.cli import authoring
from spark_jobs.definition import PipelineDefinition, load_definition, spelling_notes
from spark_jobs.definition.problems import read_yaml
from spark_jobs.errors import PipelineDefinitionError, WarehouseUnavailableError
from spark_jobs.local import warehouse_server
from spark_jobs.settings import Home
from tests.definition.test_join import ACCUMULATED, JOINED, SALES

FORMER_JOIN = """\
correlate:
  on: {orders: order_id, payments: order_id}
  match: equal
  within: {fixed: 1h}
  emit: complete
  expired: {orders: reject}
  lateness: 5m
  idle_after: 2m
  most_facts: 7
"""
PRESENT_JOIN = """\
join:
  on: {orders: order_id, payments: order_id}
  match: equal
  window: {fixed: 1h}
  expired: {orders: reject}
  allowed_lateness: 5m
  idle_timeout: 2m
  most_facts: 7
"""
FORMER_ACCUMULATE = """\
correlate:
  on: {orders: order_id, payments: order_id}
  emit: accumulate
  required: [orders]
  expired: reject
  lateness: 5m
  memory: 1GB
"""
PRESENT_ACCUMULATE = """\
accumulate:
  on: {orders: order_id, payments: order_id}
  required: [orders]
"""
BOTH = [(FORMER_JOIN, PRESENT_JOIN), (FORMER_ACCUMULATE, PRESENT_ACCUMULATE)]


def written(folder: Path, part: str) -> Path:
    path = folder / "sales.yaml"
    path.write_text(SALES.replace(JOINED, part))
    return path


@pytest.mark.parametrize(("former", "present"), BOTH, ids=["join", "accumulate"])
def test_it_is_the_same_pipeline(tmp_path: Path, former: str, present: str) -> None:
    assert load_definition(written(tmp_path, former)) == load_definition(written(tmp_path, present))


@pytest.mark.parametrize(("former", "present"), BOTH, ids=["join", "accumulate"])
def test_the_lines_to_write_can_be_pasted(tmp_path: Path, former: str, present: str) -> None:
    [note] = spelling_notes([str(written(tmp_path, former))])
    told, _, lines = note.partition("\n\n")
    assert re.search(r"sales\.yaml: `correlate` is called `\w+` now", told)
    pasted = written(tmp_path, lines)
    assert load_definition(pasted) == load_definition(written(tmp_path, present))
    assert spelling_notes([str(pasted)]) == []
    assert "\n  on: {" in lines


def stored(part: dict[str, Any]) -> dict[str, Any]:
    """As the last version kept a definition in the warehouse: with all keys, and what joined tuples are like."""
    said = {
        "match": "equal", "within": None, "emit": "complete", "required": [], "punctuations": {}, "expired": "hold",
        "lateness": "10m", "idle_after": "1m", "algorithm": "auto", "memory": 1 << 26, "most_facts": None,
        "keep_versions": "1h",
    }  # fmt: skip
    source = {
        "format": "parquet", "path": "/", "kafka": None, "schema": "`a.b` bigint", "event_id": ["a.b"],
        "event_time": "_completed_at", "options": {}, "avro": None, "envelope": None, "after_load": "keep",
    }  # fmt: skip
    return {"source": source, "correlate": said | part}


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ({"emit": "accumulate"}, ACCUMULATED[1]),
        ({"within": "2h"}, JOINED),
        ({"within": "2h", "most_facts": 3}, JOINED + "  most_facts: 3\n"),
    ],
    ids=["accumulate", "join", "bounded"],
)
def test_what_the_warehouse_has_is_read(tmp_path: Path, former: dict[str, Any], present: str) -> None:
    content = read_yaml(written(tmp_path, ""))
    on = {"on": {"orders": ["order_id"], "payments": ["order_id"]}}
    text = json.dumps({**content, **stored(on | former), "driver": None, "lookups": []})
    assert PipelineDefinition.model_validate_json(text) == load_definition(written(tmp_path, present))


def test_one_stream_in_the_warehouse_is_read() -> None:
    written = load_definition("orders").model_dump(mode="json", by_alias=True)
    former = {key: value for key, value in written.items() if key not in ("join", "accumulate")} | {"correlate": None}
    assert PipelineDefinition.model_validate(former) == load_definition("orders")


MISTAKES = {
    "an end that is none": (("emit: complete", "emit: completely"), "  join.emit: is not a key of this mapping."),
    "no duration": (("within: {fixed: 1h}", "within: 2 hours"), "  join.window: '2 hours' is not a duration."),
    "required": (("emit: complete", "required: [orders]"), "  join.required: is not a key of this mapping. It is"),
    "an end that is misspelt": (("emit: complete", "emit: accumlate"), "mapping. Write `accumulate` in place of"),
    "two words for one key": (("emit: complete", "window: 5h"), "  join.within: is not a key of this mapping. It is"),
    "a list": (("correlate:", "correlate: [orders]\nx:"), "  correlate: is not a key of this mapping."),
    "nothing": (("correlate:", "correlate: {}\nx:"), "  correlate: is not a key of this mapping."),
    "a word that is misspelt": (("idle_after", "idle_afer"), "  join.idle_afer: is not a key of this mapping."),
    "two spellings": (("correlate:", "join: {on: {orders: id, payments: id}}\ncorrelate:"), "mapping. `correlate` is"),
    "a window without a meaning": (("emit: complete", "emit: accumulate"), "  accumulate.window: is not a key of this"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "told"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_at_the_present_keys_with_the_lines_to_write(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    with pytest.raises(PipelineDefinitionError, match=re.escape(told)) as raised:
        load_definition(written(tmp_path, FORMER_JOIN.replace(*change)))
    assert "`correlate` is called `" in str(raised.value)
    _, _, lines = str(raised.value).partition("Write in its place:\n\n")
    assert not lines or re.match(r"(join|accumulate):\n  on: ", lines)
    assert ("write one of these, and remove it" in str(raised.value)) == (not lines)


def test_texts_that_look_like_numbers_stay_texts(tmp_path: Path) -> None:
    former = FORMER_JOIN.replace("match: equal", "match: {band: '1e3'}")
    [note] = spelling_notes([str(written(tmp_path, former))])
    pasted = written(tmp_path, note.partition("\n\n")[2])
    assert read_yaml(pasted)["join"]["match"] == {"band": "1e3"}


def test_the_source_that_the_warehouse_had_is_to_be_removed(tmp_path: Path) -> None:
    [note] = spelling_notes([str(written(tmp_path, f"source: {{path: /}}\n{FORMER_JOIN}"))])
    assert "Remove `source`, too." in note
    [note] = spelling_notes([str(written(tmp_path, FORMER_JOIN))])
    assert "Remove" not in note


def test_check_tells_it_although_no_warehouse_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(home: Home, *, create: bool) -> None:
        raise WarehouseUnavailableError("no warehouse")

    monkeypatch.setattr(warehouse_server, "warehouse", away)
    with pytest.raises(WarehouseUnavailableError):
        authoring.check(str(written(tmp_path, FORMER_JOIN)))
    assert "`correlate` is called `join` now" in capsys.readouterr().out
