"""The results that a proof of several streams expects are those that a few lines of Python find."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from spark_jobs.definition import PipelineDefinition
from spark_jobs.proof.verification import verify
from spark_jobs.settings import Home

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LENGTH = 4


def definition(folder: Path, names: list[str], window: Any) -> PipelineDefinition:
    stream = {
        "format": "json",
        "schema": "id bigint, site string, number decimal(9,2), at timestamp",
        "event_id": ["id"],
        "event_time": "at",
    }
    return PipelineDefinition.model_validate(
        {
            "name": "parts",
            "streams": {name: stream | {"path": str(folder / name)} for name in names},
            "join": {"on": {name: ["site", "number"] for name in names}, "window": window},
            "fact": {"table": "parts.fact", "columns": {f"{name}_id": f"{name}.id" for name in names}},
        }
    )


def naive(events: list[list[dict[str, Any]]], window: Any) -> set[str]:
    """Ids of the combinations with one key, that are all valid at a common second."""

    def ends(event: dict[str, Any]) -> float:
        if window is None:
            return float("inf")
        return event["second"] + LENGTH if isinstance(window, str) else (event["second"] // LENGTH + 1) * LENGTH

    def is_result(parts: tuple[dict[str, Any], ...]) -> bool:
        [key, *others] = {(part["site"], float(part["number"])) for part in parts}
        return not others and key[0] is not None and max(part["second"] for part in parts) < min(map(ends, parts))

    ids = ([part["id"] for part in parts] for parts in product(*events) if is_result(parts))
    return {json.dumps(each, separators=(",", ":")) for each in ids}


@pytest.mark.parametrize("window", [f"{LENGTH}s", {"fixed": f"{LENGTH}s"}, None])
@pytest.mark.parametrize("streams", [2, 3])
def test_the_join_is_that_of_all_combinations(
    tmp_path: Path, migrated_database: str, streams: int, window: Any
) -> None:
    names, randomly = [*"abc"[:streams]], random.Random(streams)
    sites, numbers = ["x", "x", "ÿ\n", None], ["1", "1.0", "1.00", "2.50"]
    events = [
        [
            {
                "id": id,
                "site": randomly.choice(sites),
                "number": randomly.choice(numbers),
                "second": randomly.randrange(-8, 8),
            }
            for id in range(12)
        ]
        for _ in names
    ]
    with psycopg2.connect(migrated_database) as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS parts CASCADE; CREATE SCHEMA parts; TRUNCATE freshet.source_range")
        cursor.execute(
            "INSERT INTO freshet.pipeline VALUES ('parts', 1, 'running', '5 s', '{}') ON CONFLICT DO NOTHING"
        )
        columns = [f"{name}_id" for name in names]
        key = ", ".join(columns)
        cursor.execute(f"CREATE TABLE parts.fact ({' bigint, '.join(columns)} bigint, PRIMARY KEY ({key}))")
        for name, of_stream in zip(names, events, strict=True):
            (tmp_path / name).mkdir()
            path = tmp_path / name / "part.json"
            times = [{"at": (EPOCH + timedelta(seconds=event["second"])).isoformat()} for event in of_stream]
            lines = [json.dumps(event | time) for event, time in zip(of_stream, times, strict=True)]
            path.write_text("\n".join([*lines, *lines[:3]]))  # some land again
            status = path.stat()
            cursor.execute(
                "INSERT INTO freshet.source_range (pipeline, unit, first, last, size, modified_ns, state) "
                "VALUES ('parts', %s, 0, %s, %s, %s, 'loaded')",
                [f"{name}/part.json", status.st_size, status.st_size, status.st_mtime_ns],
            )
    connection.close()
    expected = naive(events, window)
    proof = verify(definition(tmp_path, names, window), migrated_database, Home(tmp_path))
    [missing] = [difference for difference in proof.differences if difference.kind == "missing_result"]
    assert missing.count == len(expected)
    named = {example.split(" ")[0] for example in missing.examples}
    assert len(named) == min(len(expected), 10)
    assert named <= expected
