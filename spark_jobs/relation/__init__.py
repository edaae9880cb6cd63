"""The relation R: master data in PostgreSQL, read by page, by key, and decoded into Arrow.

| file | what it holds |
|---|---|
| relation_spec, catalog, relation_size | what a lookup needs of R, checked against PostgreSQL's catalog |
| keys, key_kinds, key_values, key_encoding, key_literals, uuid_text | join keys of stream tuples and of R's tuples |
| page_index, byte_search, page_cutting | the first key of every page of R, and how it is read from R |
| page_ranges | pages dealt out to the parts of an exchange |
| stored_relation | what reading R takes, wherever it is stored: |
| live, queries, relation_rows | in PostgreSQL; pages and keys, and the tuples they give |
| local_copy, stored_keys | in local files, as it was at one time, with what has changed since |
| limited, read_limit | either, counted, and no faster than may be |
| versions | a key with all its versions as one tuple of R, and the version that was valid at a time |
| relation_part | what a join sees of it: one task's pages, in runs for a scan, and its tuples' own keys |
| access_costs, median_of_means | what reading it costs here and now |
| copy_decoding, arrow_buffers | PostgreSQL's binary COPY format into Arrow |
| reading_connection | a connection that survives a restart of the server |
| changes | noted by triggers, read by whoever keeps tuples of R |
"""
