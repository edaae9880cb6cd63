"""What all rooms that touch the warehouse share.

connection.py         connections that outlive restarts of the server
fact_table.py         the table that a pipeline loads; fact_table_check.py reads it from the catalog
fact_staging.py       which event ids are facts already
"""
