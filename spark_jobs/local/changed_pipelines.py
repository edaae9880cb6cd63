"""The pipelines of a folder, written into another one with changes that a demonstration needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from spark_jobs.definition import definition_files
from spark_jobs.definition.problems import read_yaml


def write_changed_pipelines(
    pipelines: Path, folder: Path, changed: Callable[[Path, dict[str, Any]], dict[str, Any] | None], option: str
) -> None:
    """Write definitions as they are to be for an option of `freshet up`; those of former runs are removed.

    Args:
        pipelines: the folder of the definitions.
        folder: where to.
        changed: takes a definition's file and its content, which it gives as it is to be; None: it is left out.
        option: the option.

    Raises:
        PipelineDefinitionError: a definition can't be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for former in definition_files(folder):
        former.unlink()
    for path in definition_files(pipelines):
        content = changed(path, read_yaml(path))
        if content is not None:
            told = f"# Written by `freshet up {option}` after {path}; changes are overwritten.\n"
            (folder / path.name).write_text(told + yaml.safe_dump(content, sort_keys=False))
