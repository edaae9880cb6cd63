"""What a pipeline is: the YAML files under dags/pipelines, their model, and what is checked about them.

model.py                        PipelineDefinition, and how its file is found and loaded
fields.py  ddl.py               the kinds of values, and Spark's DDL
operations.py  validation.py    parts: how a pipeline is operated, what its facts must be like
checks.py  validation_checks.py whether the parts fit together
problems.py  yaml_file.py       what is told about a file that is wrong
"""

from spark_jobs.definition.model import (
    ALGORITHMS,
    Default,
    Fact,
    Lookup,
    PipelineDefinition,
    Source,
    definition_files,
    load_definition,
    load_definitions,
)

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
]
