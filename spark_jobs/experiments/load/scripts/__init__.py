"""What people write instead: thirty lines each, exactly once by a marker of each file in the facts' transaction.

marked_files.py       which files are left to load, and which of them are loaded at once
polars_adbc.py        R cached in polars, COPY by ADBC, a process a core
duckdb_postgres.py    DuckDB and its PostgreSQL extension, one process that joins with all cores, then writes:
                      R cached, or read again for each 400,000 events
postgres_elt.py       COPY of CSV into a staging table, and a join in PostgreSQL
lru_cache.py          psycopg2, tuples of R in an LRU cache
"""
