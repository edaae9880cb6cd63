"""The table of fates: each held one has a place and, of a stream, a share; and what expires is settled as is wished."""

from __future__ import annotations

import pytest

from spark_jobs.definition.fates import (
    EXPIRED,
    EXPIRED_EARLY,
    EXPIRED_REJECTED,
    FATES,
    JOINED,
    LATE,
    PLACES,
    WAITING_PLACES,
    Fate,
    named,
)
from spark_jobs.definition.join import settled_as


def test_each_place_and_each_share_has_a_fate_of_its_name() -> None:
    """What is only known by its place is told so: of a former version, or where none counts apart."""
    assert {place: FATES[place].place for place in PLACES} == {place: place for place in PLACES}
    assert {fate.share for fate in FATES.values()} == {"joined", "waiting", "expired", "rejected", "duplicates", None}


def test_what_is_held_where_runs_try_again_is_retried_and_needs_no_requeue() -> None:
    held = [fate for fate in FATES.values() if fate.place]
    assert {fate.name for fate in held if fate.place in WAITING_PLACES} <= {fate.name for fate in held if fate.retried}
    assert not [fate.name for fate in held if fate.requeue and (fate.retried or fate.place in WAITING_PLACES)]


def test_rejected_tuples_of_a_stream_count_as_such_unless_they_have_expired() -> None:
    assert set(named(place="rejected")) == {*named(share="rejected"), EXPIRED_REJECTED.name}


@pytest.mark.parametrize(
    ("fate", "expired", "settled"),
    [
        (EXPIRED, "hold", EXPIRED),
        (EXPIRED_EARLY, "hold", EXPIRED_EARLY),
        (EXPIRED, "reject", EXPIRED_REJECTED),
        (EXPIRED_EARLY, "emit", JOINED),
        (LATE, "emit", LATE),
    ],
)
def test_what_expires_is_held_rejected_or_emitted(fate: Fate, expired: str, settled: Fate) -> None:
    assert settled_as(fate, expired) == settled  # type: ignore[arg-type]
