"""Random parts in random batches, cut at random, some cut off and loaded again: compared with what must be the case."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

import pytest

from tests.loading.accumulation.fulfilment import (
    FULFILMENT,
    Accumulating,
    Part,
    order,
    payment,
    shipment,
    stream,
)

# Two streams make rows, their key has two columns, one of them text, and ids and keys have names of their own.
VISITS: dict[str, Any] = {
    "name": "visits",
    "streams": {
        "arrivals": stream("site string, badge int, gate string", "gate"),
        "badges": stream("badge_id bigint, site string, number int", "badge_id"),
        "leavings": stream("leaving string, site string, badge int, note string", "leaving"),
    },
    "accumulate": {
        "on": {"arrivals": ["site", "badge"], "badges": ["site", "number"], "leavings": ["site", "badge"]},
        "required": ["arrivals", "badges"],
    },
    "fact": {
        "table": "warehouse.visits",
        "columns": {
            "site": "arrivals.site",
            "badge": "arrivals.badge",
            "gate": "arrivals.gate",
            "badge_id": "badges.badge_id",
            "leaving": "leavings.leaving",
            "note": "leavings.note",
        },
    },
}
VISITS_DDL = """
    CREATE TABLE warehouse.visits (
        site text, badge integer, gate uuid, badge_id bigint, leaving text, note text, PRIMARY KEY (badge, site)
    )
"""
SITES = ["a", 'quo"te', "ä/€", ""]


def of_fulfilment(draw: random.Random, count: int) -> list[Part]:
    keys = range(count // 4)
    parts = [order(n) for n in keys if draw.random() < 0.8]
    parts += [payment(f"p{n}", draw.choice(keys), amount=n) for n in range(count // 4)]
    parts += [shipment(n, draw.choice(keys)) for n in range(count // 4)]
    return parts


def of_visits(draw: random.Random, count: int) -> list[Part]:
    def site_and_badge() -> tuple[str, int]:
        return draw.choice(SITES), draw.randrange(count // 8)

    parts = []
    for n in range(count // 3):
        at = {"at": "2026-11-22T12:00:00Z"}
        site, badge = site_and_badge()
        parts.append(Part("arrivals", {"site": site, "badge": badge, "gate": f"0000ABCD-0000-0000-0000-{n:012}", **at}))
        site, badge = site_and_badge()
        parts.append(Part("badges", {"site": site, "number": badge, "badge_id": n, **at}))
        site, badge = site_and_badge()
        parts.append(Part("leavings", {"site": site, "badge": badge, "leaving": f"{site}/{n}", "note": None, **at}))
    return parts


def load_at_random(pipeline: Accumulating, parts: list[Part], draw: random.Random) -> list[list[Part]]:
    """Load parts, some of them twice, in batches that are cut at random; half of these are cut off before."""
    arriving = [*parts, *draw.choices(parts, k=len(parts) // 5)]
    draw.shuffle(arriving)
    batches = [arriving[start : start + 60] for start in range(0, len(arriving), 60)]
    for batch in batches:
        batch_no = pipeline.open()
        if draw.random() < 0.5:
            for chunk in in_chunks(batch, draw)[:-1]:
                pipeline.store(batch_no, chunk)
            assert pipeline.resume() == batch_no
            for chunk in in_chunks(batch, draw):
                pipeline.store(batch_no, chunk, careful=True)
        else:
            for chunk in in_chunks(batch, draw):
                pipeline.store(batch_no, chunk)
        pipeline.end(batch_no, len(batch))
    return batches


def in_chunks(batch: list[Part], draw: random.Random) -> list[list[Part]]:
    """All parts of a key in one chunk or not: whatever a task makes of them."""
    of = [draw.randrange(3) for _ in batch]
    return [[part for part, number in zip(batch, of, strict=True) if number == chunk] for chunk in range(3)]


def check(pipeline: Accumulating, parts: list[Part], batches: list[list[Part]]) -> None:
    """Each event is in one place, and it is the right one."""
    accumulate = pipeline.definition.accumulate
    assert accumulate is not None
    required = accumulate.required or ("orders",)
    facts = pipeline.definition.fact.columns
    names, held = list(facts), pipeline.held()
    rows = [dict(zip(names, row, strict=True)) for row in pipeline.facts(", ".join(names))]
    by_key = defaultdict(lambda: defaultdict(list))  # type: ignore[var-annotated]
    for part in parts:
        key = tuple(part.values[column] for column in accumulate.on[part.stream])
        by_key[key][part.stream].append(part)
    first_batch = {id(part): n for n, batch in reversed(list(enumerate(batches))) for part in batch}
    key_columns = [next(n for n, s in facts.items() if s == source) for source in pipeline.definition.tuples.event_id]
    assert sorted(tuple(row[name] for name in key_columns) for row in rows) == sorted(
        key for key, of in by_key.items() if not of.keys().isdisjoint(required)
    )
    counts = {part.stream: [0, 0, 0] for part in parts}
    for key, of in by_key.items():
        row = next((row for row in rows if tuple(row[name] for name in key_columns) == key), None)
        for name, candidates in of.items():
            ids = {event_id(pipeline, part): part for part in candidates}
            places = {text: held.pop(f"{name}/{text}", None) for text in ids}
            if row is None:
                assert set(places.values()) == {"unmatched"}
                counts[name][1] += len(ids)
                continue
            [winner] = [text for text, place in places.items() if place is None]
            assert all(place in (None, "rejected") for place in places.values())
            values = {f"{name}.{column}": value for column, value in ids[winner].values.items()}
            for column, source in facts.items():
                if source in values and not source.endswith(".at"):
                    assert same(row[column], values[source]), (column, row, values)
            assert first_batch[id(ids[winner])] == min(first_batch[id(part)] for part in candidates)
            counts[name][0] += 1
            counts[name][2] += len(ids) - 1
    assert held == {}
    assert {stream: found.tolist() for stream, found in pipeline.counts.items()} == counts


def same(stored: Any, sent: Any) -> bool:
    return str(stored).lower() == str(sent).lower() or (stored is not None and sent is not None and stored == sent)


def event_id(pipeline: Accumulating, part: Part) -> str:
    """As it is held: of a uuid in lower case."""
    [column] = pipeline.definition.streams[part.stream].event_id
    value = part.values[column]
    return json.dumps([value.lower() if column == "gate" else value])


VARIANTS = {"one makes rows": (FULFILMENT, None, of_fulfilment), "two make rows": (VISITS, VISITS_DDL, of_visits)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_part_is_in_the_right_place(clean_warehouse: str, variant: str) -> None:
    content, ddl, make = VARIANTS[variant]
    pipeline = Accumulating(clean_warehouse, *((ddl,) if ddl else ()), content=content)
    draw = random.Random(variant)
    parts = make(draw, 240)
    batches = load_at_random(pipeline, parts, draw)
    check(pipeline, parts, batches)
    pipeline.close()
