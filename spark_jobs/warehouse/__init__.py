"""What all rooms that touch the warehouse share.

connection.py         connections that outlive restarts of the server
connection_pool.py    connections that threads take in turn
fact_table.py         the table that a pipeline loads; fact_table_check.py reads it from the catalog
part_table.py         the columns of a fact that the parts of one stream fill
fact_staging.py       which event ids are facts already
"""
