"""Landed files as a source: how their folder is written in a definition, and what becomes of loaded files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from spark_jobs.definition.fields import Duration, Part
from spark_jobs.definition.kinds.base import KindFacts
from spark_jobs.definition.problems import Problem, path_of, shown
from spark_jobs.settings import HOME_VARIABLE, Home

if TYPE_CHECKING:
    from spark_jobs.definition.source import Source

_HOME = "${" + HOME_VARIABLE + "}"


def _path(text: str) -> str:
    rest = text.removeprefix(_HOME)
    if not rest.startswith("/"):
        raise ValueError(f"{shown(text)} is not an absolute path of a folder. Start it with / or {_HOME}/.")
    if re.search(r"[][*?{}$\0]", rest):
        raise ValueError(f"{shown(text)} holds one of *?[]{{}}$. Write the folder itself; only {_HOME} is expanded.")
    return text


class Removal(Part):
    """What becomes of a landed file once it is loaded; one of both.

    Attributes:
        archive: folder that it is moved to.
        delete_after: how long after that it is deleted; longer than an asynchronous replica that may take over can lag.
    """

    archive: Annotated[str, AfterValidator(_path)] | None = Field(
        default=None, examples=[f"after_load: {{archive: {_HOME}/archive/orders}}"]
    )
    delete_after: Duration | None = Field(default=None, examples=["after_load: {delete_after: 7d}"])

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Removal:
        if (self.archive is None) == (self.delete_after is None):
            raise ValueError("Write archive: a folder, or delete_after: a duration; one of both.")
        return self

    @property
    def kept(self) -> timedelta:
        """How long a loaded file stays."""
        return self.delete_after or timedelta()

    def archive_folder(self, home: Home) -> Path | None:
        """The folder that loaded files are moved to, for this installation."""
        return None if self.archive is None else _resolved(self.archive, home)


AfterLoad = Annotated[
    Annotated[Literal["keep"], Tag("<policy>")] | Annotated[Removal, Tag("<removal>")],
    Discriminator(lambda value: "<removal>" if isinstance(value, dict | Removal) else "<policy>"),
]


def landing_folder(source: Source, home: Home) -> Path:
    """The folder in which a source's files arrive, for this installation."""
    assert source.kind.name == FILES.name
    return _resolved(str(source.settings), home)


def _resolved(path: str, home: Home) -> Path:
    return Path(path.replace(_HOME, str(home.root), 1))


class _Files(KindFacts):
    name = "files"
    key = "path"
    settings = Annotated[str, AfterValidator(_path)]
    example = f"path: {_HOME}/landing/orders"
    description = f"Folder in which files arrive; `{_HOME}` stands for the installation's home."
    meaning = "the folder in which files arrive"
    title = records = "files"
    bears: Literal["files"] = "files"
    of_formats = "; json is one object a line; json and csv also as .gz and .zst"
    removes = True
    options = ("most_unpacked", "most_rejected")  # what one that is packed may become

    def identity(self, source: Source) -> str:
        return posixpath.normpath(source.settings)

    def dataset(self, source: Source, home: Home) -> tuple[str, str]:
        return "file", str(landing_folder(source, home))

    def problems(self, path: str, source: Source) -> Iterator[Problem]:
        if isinstance(source.after_load, Removal) and source.after_load.archive is not None:
            archive, landing = (posixpath.normpath(each) for each in (source.after_load.archive, source.settings))
            if archive == landing:
                text = f"is the landing folder itself, {landing}. Write another folder."
                yield Problem(path_of(path, "after_load", "archive"), text)


FILES = _Files()
