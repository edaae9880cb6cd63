"""What a pipeline is: the YAML files under dags/pipelines, their model, and what is checked about them.

model.py         PipelineDefinition, and pipeline_files.py: how its file is found and loaded
source.py        where events come from; kinds/: one file a kind of source, formats/: one file a format of records
fields.py        the kinds of values that a file is made of
ddl.py           Spark's DDL: the source's columns and their types
correlation.py   the part that joins several streams, and what their joined tuples are like
accumulation.py  what that needs besides, where a fact is filled in part by part
operation.py     parts: how a pipeline is operated, what its facts must be like
consistency.py   whether the parts fit together
problems.py      the file itself, and what is said where it is wrong
stream_tuple.py  which columns of a stream tuple make the event
fates.py         what may become of a tuple: one table, which all others ask
"""

from spark_jobs.definition.correlation import Correlate
from spark_jobs.definition.model import ALGORITHMS, Default, Fact, Lookup, PipelineDefinition
from spark_jobs.definition.pipeline_files import (
    definition_files,
    load_definition,
    load_definitions,
    load_named,
    pipelines_of,
)
from spark_jobs.definition.source import Source

__all__ = [
    "ALGORITHMS",
    "Correlate",
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
]
