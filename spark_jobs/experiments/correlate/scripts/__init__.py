"""What one would write instead: some thirty lines each, exactly once by markers of the files that are loaded.

duckdb_window.py  the window in tables of DuckDB
upsert.py         each part upserted into the row of its key
stream_files.py   the files that both load in one transaction
"""
