"""Which noted changes a reader has not seen, and how old the oldest of them is, as SQL. Imports nothing."""

from __future__ import annotations

UNNOTICED = (
    "relation = {relation} AND xid >= pg_snapshot_xmin({noticed}) AND NOT pg_visible_in_snapshot(xid, {noticed})"
)
"""Condition on freshet.relation_change: rows of a relation, by transactions that a pg_snapshot does not see. The first
comparison of transactions is for the index; the second one decides."""

STALENESS = (
    "CASE cache.watched WHEN 'triggers' THEN coalesce(clock_timestamp() - (SELECT changed_at "
    "FROM freshet.relation_change WHERE "
    + UNNOTICED.format(relation="cache.relation", noticed="cache.noticed")
    + " ORDER BY xid, changed_at LIMIT 1), interval '0') "
    "WHEN 'rereading' THEN clock_timestamp() - cache.noticed_at END"
)
"""SQL expression, an interval, for a row of freshet.cache in scope as `cache`.

With triggers it is 0 as soon as every committed change has been noticed. The oldest change is the first one of the
oldest transaction: the first entry of the index from where the last look ended, so that of a pipeline that was stopped
weeks ago the changes since are not all read. Where all hot tuples are read again now and then, it is the time since
that was done last; null where nothing is noticed.
"""
