"""Changes of master data: noted by triggers, read by all that keep tuples of R in memory or on disk.

Statement-level triggers write the key of every row of which a used column has changed, and those columns as they were,
into `freshet.relation_change`, in the transaction that changes it. A reader remembers the snapshot of its last look and
asks for changes by transactions that were not visible in it: one that began long ago and commits late is noticed as
well, which it would not be by a highest number.

Why triggers rather than a version column: a version column shows no deletes, and works only as long as every writer
of R keeps it up to date. Triggers see every statement, of any writer and in any session, one with
`session_replication_role = replica` included. docs/limits.md says what they cost.

What changes rows without firing them is seen in the catalog, at each look (`watched_tables`): triggers that were
disabled, if only for a moment, tables and columns that were renamed, rewritten or exchanged, partitions that were
attached or detached. All hot tuples are read again then. Where no trigger can stand (a materialized view, a foreign
table, what logical replication feeds) or not all of them fire (disabled, no right to create them), a reader has to read
everything again now and then.

The triggers' function runs as `freshet_change_noter`, which may do nothing else, and calls nothing that a table's owner
can define: it takes PostgreSQL's own types only, and compares rows by their images.

| file | what it holds |
|---|---|
| triggers | installs and removes the triggers |
| watched_tables | the tables that need triggers for a relation, which they have, and since when without a gap |
| unnoticed | what has changed since a snapshot, or since R was read whole, and a bounded set of changed keys |
| staleness | which noted changes those are, and how old the oldest one is, as SQL |
"""
