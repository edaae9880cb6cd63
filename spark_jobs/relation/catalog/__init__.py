"""What PostgreSQL's catalog says of a relation.

| file | what it holds |
|---|---|
| describe | `describe_relation`: the way in |
| columns, collations, indexes, exclusions | what is read from the catalog |
| column_checks | whether the columns that a lookup names fit the stream |
| index_choice | which index lookups go by, and which one pages are read by |
| sql_names | names as one would write them in SQL, for error messages |
"""

from spark_jobs.relation.catalog.describe import describe_relation

__all__ = ["describe_relation"]
