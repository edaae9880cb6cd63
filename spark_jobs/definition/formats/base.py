"""What a definition says of a format of records, apart from how they are decoded."""

from __future__ import annotations

from typing import Any

from spark_jobs.definition.kinds.base import Bearer
from spark_jobs.definition.registered import Registered


class FormatFacts(Registered):
    """What holds of all records of one format.

    Attributes:
        name: of the format, in definitions and in what is held.
        borne_by: what such records come in.
        options: names of `options` that it takes.
        key: of the definition, for what there is to say of the format besides; None: nothing.
        settings: what is written there: a model.
        example, description: of the key, for the reference.
        lacking: what is told where the key is missing.
        is_stored_unset: whether stored definitions of other formats have the key, too, as null. What batches were read
            as is told by these: a format that comes later leaves them as they are.
        held_as: the format of a record that is held as bytes: its own, or json where it is a row of a file.
        is_divisible: whether some records of a file can be read without all others.
        holds_columns: whether not the bytes of a record are held, but its columns as JSON.
    """

    name: str
    borne_by: frozenset[Bearer]
    options: tuple[str, ...] = ()
    key: str | None = None
    settings: Any = None
    example: str = ""
    description: str = ""
    lacking: str = ""
    is_stored_unset: bool = False
    held_as: str
    holds_columns: bool = False
    is_divisible: bool = True
