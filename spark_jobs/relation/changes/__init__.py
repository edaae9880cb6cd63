"""Changes of master data: noted by triggers, read by whoever keeps tuples of R in memory or on disk.

Statement-level triggers write the key of every changed row into `freshet.relation_change`, in the transaction that
changes it. A reader remembers the snapshot of its last look, and asks for changes by transactions that were not
visible in it: one that began long ago and commits late is noticed as well, which it would not be by a highest number.

Why triggers rather than a version column: a version column shows no deletes, and works only as long as every writer
of R keeps it up to date. Triggers see every statement, of any writer, and cost it one INSERT .. SELECT. Measured on
a table of five columns, beside the same table without them: an update of one row takes about 1.3 times as long with a
commit of its own and 2 times within a transaction, of 1,000 rows 2.5 to 3.5 times, of 10,000 rows, the most that are
noted one by one, 5 times, and of 100,000 rows, which are noted as one change, 1.1 to 1.2 times.

What they do not see: changes made while they are disabled or in sessions with `session_replication_role = replica`,
what logical replication applies, partitions that are attached or detached, and ALTER TABLE. A rebuild of the cache
reads R anew in any case. Where no trigger can stand (no right to create one, a materialized view, a foreign table),
a reader has to read everything again now and then.

| file | what it holds |
|---|---|
| unnoticed | what has changed since a snapshot |
| visibility | which noted changes those are, as SQL |
| noted_since | whether changes have been noted without a gap since a snapshot |
| changed_keys | a bounded set of changed keys |
| staleness | how old the oldest unnoticed change is, as SQL |
| watched_tables | the tables that need triggers for a relation, and which they have |
| triggers | installs and removes them |
| used_relations | the relations that pipelines look up, with all their key columns |
"""
