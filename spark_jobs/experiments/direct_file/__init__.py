"""R as a local file of fixed-size tuples, sorted by key: read by page and by key, past the operating system's cache.

| file | what it holds |
|---|---|
| file_format | what stands where in a direct file, and its checksums |
| writer | streams tuples in key order into a new direct file, which then takes the old one's place at once |
| blocks | reads that no cache answers, and writes past it |
| direct_relation | a direct file as the joins see it |
"""
