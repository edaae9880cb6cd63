"""What all rooms that touch the warehouse share.

connection.py         connections that outlive restarts of the server
fact_table.py         the table that a pipeline loads; fact_table_check.py reads it from the catalog
event_id.py           event ids outside the fact table: texts, hash codes, and back
fact_staging.py       which event ids are facts already
latency.py            latencies as histograms
fencing.py            epochs: keeps older drivers, and loaders that were left over, from writing
drivers.py            who drives a pipeline, and what an operator wants of it
registration.py       which fact table and event id a pipeline has
work_under_way.py     whether a run or a validation is still at work
freshness_episodes.py times during which a pipeline missed its target
migration.py  roles.py    schema and rights
"""
