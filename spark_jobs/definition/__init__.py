"""What a pipeline is: the YAML files under dags/pipelines, their model, and what is checked about them.

model.py            PipelineDefinition, and pipeline_files.py: how its file is found and loaded
source.py           where events come from; kinds/: one file a kind of source, formats/: one file a format of records;
registered.py       what both have in common
joined_tuple.py     how tuples of several streams are called, and what joined ones have besides
fields.py           the kinds of values that a file is made of
ddl.py              Spark's DDL: the source's columns and their types
shapes.py           what it does with its streams: one stream, joined streams, accumulated streams
join.py             the part that joins several streams; accumulate.py: the part by which they fill one fact
join_problems.py    what does not fit between streams and their join
stream_keys.py      the key `on`: the columns by which streams belong together; matching.py: how values match
former_spelling.py  how these parts were written in the last version
operation.py        parts: how a pipeline is operated, what its facts must be like
consistency.py      whether the parts fit together
problems.py         the file itself, and what is said where it is wrong
stream_tuple.py     which columns of a stream tuple make the event
fates.py            what may become of a tuple: one table, which all others ask
"""

from spark_jobs.definition.model import ALGORITHMS, Default, Fact, Lookup, PipelineDefinition
from spark_jobs.definition.pipeline_files import (
    definition_files,
    load_definition,
    load_definitions,
    load_named,
    pipelines_of,
    spelling_notes,
)
from spark_jobs.definition.source import Source

__all__ = [
    "ALGORITHMS",
    "Default",
    "Fact",
    "Lookup",
    "PipelineDefinition",
    "Source",
    "definition_files",
    "load_definition",
    "load_definitions",
    "load_named",
    "pipelines_of",
    "spelling_notes",
]
