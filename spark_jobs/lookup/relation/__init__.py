"""The relation R: master data in PostgreSQL, read by page, by key, and decoded into Arrow.

| file | what it holds |
|---|---|
| stored_relation | what reading R takes, wherever it is stored, and the part of it that a join sees |
| live, queries | in PostgreSQL, and the SQL that reads it |
| read_limit | either, counted, and no faster than may be |
| page_index | the first key of every page, and pages dealt out to the parts of an exchange |
| page_cutting | reads that from R, on the driver |
| relation_rows | the tuples that a read gives; where R keeps versions, each key with all of them |
| relation_spec, catalog | what a lookup needs of R, checked against PostgreSQL's catalog |
| used_relations | what a pipeline says about a lookup, and all columns of a relation that pipelines use |
| back_stage_join | joins the tuples of one task with its part of R |
| access_costs | what reading R costs here and now |
| reading_connection | a connection that survives a restart of the server |
| copy_pieces | a query's whole result, decoded while it comes in |
"""
