"""Avro records to arrow: a writer's schema becomes a small program, and one kernel runs it over all records of a block.

avro_records.py   records of one schema, or of Confluent's wire format, to tuples
avro_format.py    the format: the schema of a record is a file's or a registry's
programs.py       a schema to a program, and what its values are in arrow
kernels.py        the program's machine
registry.py       Confluent's schema registry
"""
