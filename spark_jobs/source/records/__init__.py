"""Bytes to arrow: decodes the records of every format, by one contract. `formats.py` is the table of them.

What each type of a stream's columns accepts in each format is written down in this folder's README.md.
A record that is malformed costs itself only. Imports neither Spark nor psycopg2: tasks, reprocessing and the proof
decode alike.

format.py                              what a format has to do
json_format.py  csv_format.py          one each, or a folder each
parquet_format.py
record_decoder.py                      decodes a source's records as its definition says
decoded.py                             what came of it: tuples, and reasons of those that are malformed
json_blocks.py  json_members.py        JSON, whole blocks by arrow; one record by one
debezium.py                            the row within an envelope
csv_records.py                         CSV, whole blocks by arrow; one record by one
parquet_rows.py                        rows of a Parquet file
parquet_pages.py  parquet_headers.py   how these are read in bounded memory, by the headers of the file's pages
texts.py  typed_values.py              which texts and which typed values a column takes
long_values.py                         values that are too long
"""
