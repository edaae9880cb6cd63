"""Every error that Freshet raises on purpose: what was wrong, what is allowed, what to do."""

from __future__ import annotations


class FreshetError(Exception):
    """Base of all errors whose message is meant for the person who runs Freshet."""


class PipelineDefinitionError(FreshetError):
    """A pipeline's YAML file is wrong. The message names file, key, value and what is allowed."""


class SchemaMismatchError(FreshetError):
    """A table of the warehouse lacks what the pipeline needs of it (table, column, type, key)."""


class SchemaVersionError(FreshetError):
    """The control schema is of a version that this one can't bring up to date. The message says which one can."""


class UnreadableFileError(FreshetError):
    """A landed file can't be read as its format, or as the source's schema. The message names file and fault."""


class SourceRangeGoneError(FreshetError):
    """A range of the source is not what was planned: its file is missing, or was changed after it was listed."""


class SourceRangeChangedError(SourceRangeGoneError):
    """A file was changed after it was listed: what was planned is not there any more, and will not come back."""


class WarehouseUnavailableError(FreshetError):
    """The warehouse can't be reached, or went away and did not come back in time."""


class SourceAwayError(FreshetError):
    """The source can't be read at all: its landing folder is away, or may not be listed."""


class LoadBlockedError(FreshetError):
    """Something outside the tuples keeps them from being loaded: a table refuses most of them, the disk is full."""


class WriterFencedError(FreshetError):
    """A newer driver has taken over the pipeline; this one may not write any more."""


class MemoryBudgetError(FreshetError):
    """The memory given is too small for the algorithm to take a single step."""


class JoinStateError(FreshetError):
    """A join operator was driven out of order (pushed beyond its room, used after its end)."""


class PlatformError(FreshetError):
    """A process of the embedded platform (PostgreSQL, Airflow, Spark driver) could not be run."""


class SketchMismatchError(FreshetError):
    """Two sketches of different classes, seeds or shapes were added or joined."""


class SketchDamagedError(FreshetError):
    """Bytes that are no sketch's, of another format or class than is asked for, or damaged."""


class WorkloadError(FreshetError):
    """The workload generator or the TPC-H seed was asked for something it can't make."""


class DirectFileError(FreshetError):
    """A direct file of R can't be written, or the file is damaged, of another version, or none at all."""


class StateDamagedError(FreshetError):
    """A file of a join's state is missing, damaged, or of another format. The message names it and what to do."""


class StateInUseError(FreshetError):
    """Another process holds the folder of a join's state. The message names it."""


class CacheDamagedError(FreshetError):
    """A version of a front stage's file, or of a copy of R, is damaged, half written, or of another format.

    Args:
        message: the file, what is wrong with it, what goes on instead, what to do.
        version: the damaged version; 0 where it can't be told.
    """

    def __init__(self, message: str, version: int = 0) -> None:
        super().__init__(message)
        self.version = version


class NotValidatedError(FreshetError):
    """A validation could not come to a result: an expectation can't be checked."""
