"""The ground floor: arrow columns and what becomes of their values.

The room knows arrays: no engine, no database, no network.

| file | what it holds |
|---|---|
| jit, hashing | compiling a kernel; 64-bit hash codes that never change |
| arrow_buffers | the numpy arrays that lie under arrow columns, and arrow columns over numpy arrays |
| value_codes | values as int64 codes: to find equal ones by, and in order |
| keys | join keys: codes, with the bytes that confirm them |
| event_id | event ids outside the fact table: canonical texts, hash codes, and back |
| uuid_text, json_text | UUIDs and JSON as text |
| copy_encoding, copy_decoding | to PostgreSQL's binary COPY format, and from it |
"""
