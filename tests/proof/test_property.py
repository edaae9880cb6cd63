"""Whatever was stored of whatever landed: the proof finds exactly what a few lines of Python find."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.proof.landed_sales import LandedSales, balance, sale

# For each id: how often it lands in a committed and in a pending file, whether it is a fact, where it is held.
EVENT = st.tuples(
    st.integers(0, 2), st.integers(0, 1), st.booleans(), st.sampled_from([None, "shed", "unmatched", "rejected"])
)


@pytest.fixture
def sales(tmp_path: Path, warehouse_url: str) -> LandedSales:
    return LandedSales(tmp_path, warehouse_url)


def naive(events: list[tuple[int, int, bool, str | None]]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {"missing": set(), "in_two_places": set(), "extra_fact": set(), "extra_held": set()}
    for number, (committed, pending, fact, place) in enumerate(events):
        landed = committed + pending > 0
        if committed and not fact and place is None:
            found["missing"].add(number)
        if landed and fact and place:
            found["in_two_places"].add(number)
        if fact and not landed:
            found["extra_fact"].add(number)
        if place and not landed:
            found["extra_held"].add(number)
    return {kind: numbers for kind, numbers in found.items() if numbers}


# The ten examples of a difference are all that is named, so there are no more events.
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENT, max_size=10))
def test_the_law_is_judged_as_a_naive_count_does(
    sales: LandedSales, events: list[tuple[int, int, bool, str | None]]
) -> None:
    sales.clear()
    committed = [sale(number) for number, event in enumerate(events) for _ in range(event[0])]
    pending = [sale(number) for number, event in enumerate(events) for _ in range(event[1])]
    sales.land(*committed, file="committed.json")
    sales.land(*pending, file="pending.json", pending=True)
    for number, (_, _, fact, place) in enumerate(events):
        if fact:
            sales.store_sale(number)
        if place:
            sales.hold(f"[{number}]", place)
    proof = sales.verify()
    found = {
        difference.kind: {int(example.split("]")[0][1:]) for example in difference.examples}
        for difference in proof.differences
    }
    assert found == naive(events)
    assert proof.facts == sum(event[2] for event in events)
    assert proof.records == len(committed) + len(pending)
    balance(proof)
