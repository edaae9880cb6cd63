"""PostgreSQL's binary COPY format into Arrow columns. No I/O: bytes in, arrays out.

| file | what it holds |
|---|---|
| column_types | the column types that can be read, and the Arrow type of each |
| decode | `decode_copy`: the way in, and where the fields of the tuples lie |
| column_arrays | from the bytes of a column's fields to its Arrow array |
"""
