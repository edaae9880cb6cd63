"""The relation R: master data in PostgreSQL, read by page, by key, and decoded into Arrow.

| file | what it holds |
|---|---|
| relation_spec, catalog, relation_size | what a lookup needs of R, checked against PostgreSQL's catalog |
| keys, key_kinds, key_values, key_encoding, key_literals, uuid_text | join keys of stream tuples and of R's tuples |
| page_index, byte_search, page_ranges | the first key of every page of R; pages dealt out to the parts of an exchange |
| postgres_relation, relation_rows, queries | reading pages and keys |
| versions | a key with all its versions as one tuple of R, and the version that was valid at a time |
| paged_relation | what all relations have in common that are read by page and by key |
| page_runs | several pages in one go, for a scan of all of R |
| copy_decoding, arrow_buffers | PostgreSQL's binary COPY format into Arrow |
| reading_connection | a connection that survives a restart of the server |
| postgres_snapshot, stored_keys | R as it was at one time in local files, with any key and columns |
| changes | noted by triggers, read by whoever keeps tuples of R |
"""
