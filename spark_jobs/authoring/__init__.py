"""What helps to write a pipeline: a definition from a sample file, DDL for its fact table, a check before its start.

sample.py            the columns of a file, and which of them make the event
matching_columns.py  which columns of several streams' files say what belongs together
new_pipeline.py      a commented definition made of them
yaml_schema.py       JSON Schema of a definition, for editors
reference.py         the same as a page of documentation
fact_ddl.py          the fact table that a definition wants
dbt_sources.py       fact tables as sources of dbt
check.py             all that can be told of a pipeline before it starts
"""
