"""Finds the YAML files of pipelines, and loads them; an error names all that is wrong in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from spark_jobs.definition.accumulate import Accumulate
from spark_jobs.definition.consistency import inconsistencies
from spark_jobs.definition.fields import Part
from spark_jobs.definition.former_spelling import in_present_spelling, note_of_former_spelling
from spark_jobs.definition.join import Join
from spark_jobs.definition.model import Fact, Lookup, PipelineDefinition, shape_of
from spark_jobs.definition.operation import Expectation
from spark_jobs.definition.problems import Problem, problems_of, read_yaml, suggestion
from spark_jobs.definition.shapes import SHAPE_KEYS, shape_problems
from spark_jobs.definition.source import Source
from spark_jobs.errors import PipelineDefinitionError
from spark_jobs.settings import pipelines_folder

_SUFFIXES = (".yaml", ".yml")
_AnyPart = TypeVar("_AnyPart", bound=Part)


def load_definition(name_or_path: str | Path) -> PipelineDefinition:
    """Load a pipeline by its name (a file of the pipelines folder) or by the path of its file.

    Raises:
        PipelineDefinitionError: there is no such pipeline, there are two, or its file is wrong: all problems at once,
            each with key, value, what is allowed and what to do.
    """
    path = _path_of(name_or_path)
    content = read_yaml(path)
    note = note_of_former_spelling(content)
    definition, problems = _parse(in_present_spelling(content))
    if content.get("name") != path.stem and not any(key == "name" for key, _ in problems):
        rename = f"rename the file to {content['name']}{path.suffix}"
        text = f"{content['name']!r} is not the name of its file. Write name: {path.stem}, or {rename}."
        problems.append(Problem("name", text))
    if definition is None or problems:
        lines = [f"  {key}: {text}".replace("\n", "\n      ") for key, text in problems]
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        lines += [] if note is None else [f"Correct this in the lines below, too. {note.rstrip()}"]
        raise PipelineDefinitionError("\n".join([f"{path}: {count}", *lines]))
    return definition


def _spelling_note(path: Path) -> str | None:
    note = note_of_former_spelling(read_yaml(path))
    return None if note is None else f"{path}: {note}"


def _path_of(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if isinstance(name_or_path, str) and len(path.parts) <= 1 and path.suffix not in _SUFFIXES:
        return _file_of(name_or_path)
    return path


def load_named(names: Sequence[str]) -> dict[str, PipelineDefinition]:
    """Load pipelines by their names, the paths of their files, or the name of the driver that loads several.

    Raises:
        PipelineDefinitionError: as of `load_definition`.
    """
    definitions = [load_definition(each) for name in names for each in _members(name)]
    return {definition.name: definition for definition in definitions}


def spelling_notes(names: Sequence[str]) -> list[str]:
    """For each file of these that is in the spelling of the last version, what to write in it; raises as above."""
    notes = [_spelling_note(_path_of(each)) for name in names for each in _members(name)]
    return [note for note in notes if note is not None]


def _members(name: str) -> Sequence[str]:
    """The pipelines of a driver, if it is the name of one that several share; else what was given."""
    shared = [] if not name.isidentifier() or name in _files_by_name() else [*pipelines_of(name)]
    return shared or [name]


def pipelines_of(driver: str) -> dict[str, PipelineDefinition]:
    """The pipelines of the pipelines folder that a driver loads, by name; files that are wrong are left out."""
    found = {}
    for name in _files_by_name():
        with suppress(PipelineDefinitionError):
            definition = load_definition(name)
            if definition.driver_name == driver:
                found[name] = definition
    return found


def load_definitions(folder: Path | None = None) -> dict[str, PipelineDefinition]:
    """Load all pipelines of a folder (default: the pipelines folder), by name.

    Raises:
        PipelineDefinitionError: a file is wrong, or two have one fact table; the message holds the problems of all
            files.
    """
    definitions, errors = {}, []
    for name, paths in _files_by_name(folder).items():
        try:
            definitions[name] = load_definition(_only(name, paths))
        except PipelineDefinitionError as error:
            errors.append(str(error))
    errors += _shared_fact_tables(definitions.values())
    if errors:
        raise PipelineDefinitionError("\n".join(errors))
    return definitions


def definition_files(folder: Path | None = None) -> list[Path]:
    """The pipeline files of a folder (default: the pipelines folder), in order of their names.

    Hidden files, such as editors leave beside the one that they edit, do not count. Two that differ by their suffix
    alone are both listed; loading their pipeline is an error.

    Raises:
        PipelineDefinitionError: there is no such folder.
    """
    folder = folder or pipelines_folder()
    if not folder.is_dir():
        raise PipelineDefinitionError(f"{folder} is not a folder. Pipelines are the YAML files of $FRESHET_PIPELINES.")
    return sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and not path.name.startswith("."))


def _files_by_name(folder: Path | None = None) -> dict[str, list[Path]]:
    """Name of a pipeline -> the files that would be it; there should be one."""
    files: dict[str, list[Path]] = {}
    for path in definition_files(folder):
        files.setdefault(path.stem, []).append(path)
    return files


def _only(name: str, paths: list[Path]) -> Path:
    if len(paths) > 1:
        files = " and ".join(path.name for path in paths)
        text = f"{files} would both be the pipeline {name!r}. Remove one of them, or give it another name."
        raise PipelineDefinitionError(f"{paths[0].parent}: {text}")
    return paths[0]


def _shared_fact_tables(definitions: Iterable[PipelineDefinition]) -> Iterator[str]:
    """What is told of pipelines that load one table, by its spelling; the warehouse knows what else is one table."""
    pipelines: dict[str, list[str]] = {}
    for definition in definitions:
        pipelines.setdefault(definition.fact.table, []).append(definition.name)
    for table, names in pipelines.items():
        if len(names) > 1:
            yield (
                f"{table} is the fact table of {' and '.join(names)}: each would take the other's events for "
                f"duplicates of its own. Give each pipeline a fact table of its own."
            )


def _file_of(name: str) -> Path:
    files = _files_by_name()
    if name not in files:
        raise PipelineDefinitionError(
            f"There is no pipeline {name!r} in {pipelines_folder()}.{suggestion(name, files)} "
            f"Pipelines: {', '.join(files) or 'none'}. Add {name}.yaml there, or name a file."
        )
    return _only(name, files[name])


def _parse(content: dict[str, Any]) -> tuple[PipelineDefinition | None, list[Problem]]:
    try:
        return PipelineDefinition.model_validate(content), []
    except ValidationError as error:
        problems = list(problems_of(error, PipelineDefinition))
    # Parts that are wrong in themselves keep the model from comparing them: compare those that are right.
    found = list(shape_problems([key for key in SHAPE_KEYS if content.get(key) is not None]))
    lookups, validation = content.get("lookups"), content.get("validation")
    expectations = validation.get("expectations") if isinstance(validation, dict) else None
    source, streams = _valid(Source, content.get("source")), _sound_streams(content.get("streams"))
    join, accumulate = _valid(Join, content.get("join")), _valid(Accumulate, content.get("accumulate"))
    shape = None if found else shape_of(source, streams, join, accumulate)
    is_whole = shape is not None and len(shape.streams) == len(content.get("streams") or [""])
    found += inconsistencies(
        {"": source} if source is not None else streams or {},
        shape.tuples if shape is not None and is_whole else None,
        [_valid(Lookup, lookup) for lookup in lookups] if isinstance(lookups, list) else [],
        _valid(Fact, content.get("fact")) if isinstance(lookups, list | None) else None,
        [_valid(Expectation, each) for each in expectations] if isinstance(expectations, list) else [],
    )
    if shape is not None and is_whole:
        found += shape.problems()
    problems += [problem for problem in found if problem not in problems]
    return None, problems


def _sound_streams(content: Any) -> dict[str, Source] | None:
    """The streams that are right in themselves; None where there are none."""
    if not isinstance(content, dict):
        return None
    return {name: stream for name, each in content.items() if (stream := _valid(Source, each))}


def _valid(part: type[_AnyPart], content: Any) -> _AnyPart | None:
    try:
        return part.model_validate(content)
    except ValidationError:
        return None
