"""Brings the tasks' reports of one batch to the driver, and sums them up for the ledger."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from spark_jobs.definition.fates import Fate
from spark_jobs.lookup.planning.lookup_plan import LookupPlan
from spark_jobs.lookup.relation.relation_rows import RelationRows
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.stages.batch_context import Collected, PieceEnd, TaskReport

_making = threading.Lock()  # Spark numbers accumulators without one; pipelines of one driver begin side by side


class _Gathering(AccumulatorParam[list[TaskReport]]):
    def zero(self, value: list[TaskReport]) -> list[TaskReport]:
        return []

    def addInPlace(self, value1: list[TaskReport], value2: list[TaskReport]) -> list[TaskReport]:  # noqa: N802
        value1 += value2
        return value1


class ReportChannel:
    """Way from the tasks to the driver: a Spark accumulator that gathers TaskReports.

    A task that is tried again may report twice. What rests on reports are frequencies and figures; the
    counts of what was stored come from the loading transactions themselves.
    """

    def __init__(self, context: SparkContext) -> None:
        with _making:
            self._gathered: Accumulator[list[TaskReport]] = context.accumulator([], _Gathering())

    def send(self, report: TaskReport) -> None:
        """In a task: send a report."""
        self._gathered.add([report])

    def receive(self) -> list[TaskReport]:
        """In the driver: all reports since the last call."""
        reports, self._gathered.value = self._gathered.value, []
        return reports


class BatchReport:
    """All task reports of one batch.

    Args:
        reports: what the tasks sent.
    """

    def __init__(self, reports: list[TaskReport]) -> None:
        self._reports = reports
        self._front: Counter[str] = Counter()
        for report in reports:
            if report.stage == "front":
                self._front.update(report.counts)

    @property
    def arrived(self) -> int:
        """Records that the batch read."""
        return sum(end.records for end in self.pieces().values())

    @property
    def misses(self) -> int:
        """Lookups that the front stage has left to the back stages."""
        signs = {"probes": 1, "hits": -1}
        return sum(signs.get(name.partition(".")[0], 0) * count for name, count in self._front.items())

    def pieces(self) -> dict[Hashable, PieceEnd]:
        """What was read of the source, by piece; what a task and its second try have both read, once."""
        stages = {report.stage for report in self._reports}
        reading = "collect" if stages & {"collect", "join"} else "front"
        return {end.piece: end for report in self._reports if report.stage == reading for end in report.pieces}

    def collected(self) -> list[Collected]:
        """What was found in each piece of several streams."""
        return list({piece: found for report in self._reports for piece, found in report.collected.items()}.values())

    def bucket_counts(self) -> dict[int, tuple[Counter[Fate], ...]]:
        """What became of each stream's tuples, by bucket."""
        return {bucket: counts for report in self._reports for bucket, counts in report.streams.items()}

    def unsettled(self) -> IdSketch:
        """The event ids that were read, less those that were loaded: none, if none was lost on its way.

        Of a task that is tried again the last report counts: it has read and loaded all of its tuples once more.
        """
        last = {(report.stage, report.lookup, report.partition): report.unsettled for report in self._reports}
        total = IdSketch()
        for packed in last.values():
            if packed is not None:
                total += IdSketch.from_bytes(packed)
        return total

    def hits(self, lookup: int) -> NDArray[np.int64] | None:
        """Hits of each slot of a lookup's hot set, shape (slots,); None where they were not counted."""
        counted = [report.hits[lookup] for report in self._reports if lookup in report.hits]
        return np.sum(counted, axis=0) if counted else None

    def offers(self, lookup: int) -> list[tuple[RelationRows, NDArray[np.int64]]]:
        """Tuples of R that the back stage found frequent, with their frequencies."""
        return [report.offers for report in self._back(lookup) if report.offers is not None]

    @property
    def back_stage_seconds(self) -> float:
        """What the back stages took, one after the other, each as long as its slowest task."""
        return self._slowest("back", lambda seconds: seconds["join"])

    def stage_seconds(self) -> dict[str, float]:
        """What the batch spent in its front stage, its back stages and with storing; the slowest task's of each."""
        storing = [self._slowest(stage, lambda seconds: seconds["load"]) for stage in ("front", "back", "parts")]
        return {
            "front_stage": round(self._slowest("front", lambda seconds: seconds["total"] - seconds["load"]), 4),
            "back_stage": round(self.back_stage_seconds, 4),
            "commit": round(sum(storing), 4),
        }

    def statistics(self, plans: tuple[LookupPlan, ...], waited: float | None = None) -> dict[str, Any]:
        """The batch's figures as the ledger keeps them (JSON).

        Args:
            plans: of the lookups.
            waited: seconds from the landing of its tuples to the batch's start; None if not known.
        """
        waiting = {} if waited is None else {"waiting": round(waited, 4)}
        ignored = {"ignored": self._front["ignored"]} if self._front["ignored"] else {}
        return {
            "arrived": self.arrived,
            **ignored,
            "front_stage_probes": sum(self._front[f"probes.{plan.position}"] for plan in plans if plan.front),
            "front_stage_hits": sum(self._front[f"hits.{plan.position}"] for plan in plans if plan.front),
            "stage_seconds": waiting | self.stage_seconds(),
            "task_seconds": self._seconds(),
            "lookups": [self._lookup(plan) for plan in plans],
        }

    def _slowest(self, stage: str, spent: Callable[[dict[str, float]], float]) -> float:
        """Seconds of the slowest task, summed over the stage's lookups: they are made one after the other."""
        slowest: dict[int, float] = {}
        for report in self._reports:
            if report.stage == stage:
                slowest[report.lookup] = max(slowest.get(report.lookup, 0.0), spent(report.seconds))
        return sum(slowest.values())

    def _lookup(self, plan: LookupPlan) -> dict[str, Any]:
        counts: Counter[str] = Counter()
        for report in self._back(plan.position):
            counts.update(report.counts)
        chosen = Counter(report.algorithm for report in self._back(plan.position))
        reasons = [report.reason for report in self._back(plan.position) if report.reason][:1]
        if plan.reading is not None:
            reasons.append(plan.reading)
        return {
            "relation": plan.spec.relation,
            "algorithm": chosen.most_common(1)[0][0] if chosen else plan.algorithm,
            "reason": "; ".join(reasons) or None,
            "probes": self._front[f"probes.{plan.position}"],
            "hits": self._front[f"hits.{plan.position}"],
            **counts,
        }

    def _seconds(self) -> dict[str, float]:
        seconds: Counter[str] = Counter()
        for report in self._reports:
            for activity, spent in report.seconds.items():
                seconds[f"{report.stage}_{activity}"] += spent  # type: ignore[assignment]
        return {activity: round(spent, 4) for activity, spent in seconds.items()}

    def _back(self, lookup: int) -> list[TaskReport]:
        return [report for report in self._reports if report.stage == "back" and report.lookup == lookup]
