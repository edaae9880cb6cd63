"""Which noted changes of a relation a reader has not seen, as SQL; imported by those who must stay light."""

UNNOTICED = (
    "relation = {relation} AND xid >= pg_snapshot_xmin({noticed}) AND NOT pg_visible_in_snapshot(xid, {noticed})"
)
"""Condition on freshet.relation_change: rows of a relation, by transactions that a pg_snapshot does not see. The first
comparison of transactions is for the index; the second one decides."""
