"""What reprocessing runs have changed in the balance of each pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from psycopg2 import extensions


class Reprocessed(NamedTuple):
    """Signed changes of the balance: facts up, shed down."""

    facts: int = 0
    shed: int = 0
    unmatched: int = 0
    rejected: int = 0

    def plus(self, other: Reprocessed) -> Reprocessed:
        """Both together."""
        return Reprocessed(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass
class _Final:
    """The runs of a pipeline that can't change any more; retention may have deleted them since.

    Attributes:
        last: number of a run that has none before it that may change.
        sums: of the runs up to that one.
        beyond: the others, by number.
    """

    last: int = 0
    sums: Reprocessed = field(default_factory=Reprocessed)
    beyond: dict[int, Reprocessed] = field(default_factory=dict)

    def move_on(self, before: int | None) -> None:
        """Add up the runs before this one, the first that may change; None: all."""
        for batch_no in sorted(self.beyond):
            if before is not None and batch_no > before:
                return
            self.sums = self.sums.plus(self.beyond.pop(batch_no))
            self.last = batch_no


class ReprocessedReader:
    """Sums of the runs, of which those that can't change any more are read once."""

    def __init__(self) -> None:
        self._final: dict[str, _Final] = {}

    def forget(self, pipeline: str) -> None:
        """Read all runs of a pipeline the next time: retention may have deleted some that were not seen."""
        self._final.pop(pipeline, None)

    def read(self, cursor: extensions.cursor, pipelines: Sequence[str]) -> dict[str, Reprocessed]:
        """What all runs of each of these pipelines add up to; those that run now count with what they have done."""
        final = [self._final.setdefault(pipeline, _Final()) for pipeline in pipelines]
        # A run is open for others to see a moment after its number was drawn, and two may close in any order: final is
        # what was closed a while ago, and has nothing before it that was not.
        cursor.execute(
            """
            SELECT run.* FROM unnest(%s::text[], %s::bigint[]) AS known (pipeline, after) CROSS JOIN LATERAL (
                SELECT pipeline, batch_no, closed_at < clock_timestamp() - interval '1 minute', facts, shed, unmatched,
                    rejected
                FROM freshet.reprocessing_run WHERE pipeline = known.pipeline AND batch_no > known.after
                ORDER BY batch_no) AS run
            """,
            [list(pipelines), [each.last for each in final]],
        )
        unsettled: dict[str, dict[int, Reprocessed]] = {pipeline: {} for pipeline in pipelines}
        for pipeline, batch_no, settled, *changes in cursor.fetchall():
            runs = self._final[pipeline].beyond if settled else unsettled[pipeline]
            runs[batch_no] = Reprocessed(*changes)
        for pipeline in pipelines:
            self._final[pipeline].move_on(before=min(unsettled[pipeline], default=None))
        return {
            pipeline: reduce(
                Reprocessed.plus,
                [*self._final[pipeline].beyond.values(), *unsettled[pipeline].values()],
                self._final[pipeline].sums,
            )
            for pipeline in pipelines
        }
