"""The message that is sent when a pipeline misses its freshness target, and when that is over."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from spark_jobs.shown_text import shown_line

if TYPE_CHECKING:
    from spark_jobs.control.freshness_episodes import Episode, News
    from spark_jobs.ledger.status.pipeline_status import PipelineStatus

# In these states nothing is loaded: an episode that is over has ended without a recovery.
_NOT_LOADING = ("stopped", "starting", "restarting", "blocked", "down")


@dataclass(frozen=True)
class Alert:
    """One message, made of plain values: it travels between tasks, and to a webhook as JSON.

    Attributes:
        pipeline: its name.
        what: missed; recovered; or ended: the stream was stopped, and nothing keeps the target.
        state: of the pipeline now.
        since: when the target began to be missed; ISO text.
        until: when that was over; ISO text, None: not yet.
        p99_ms: freshness of 99 of 100 facts of the last minute; None where none were loaded.
        unread: what has landed and is not loaded now, in words.
        oldest_unread: when the oldest of it landed; ISO text, None: nothing is unread, or it is not known.
        target_ms: how fresh they are to be.
        reason: how the target was missed when that began.
        advice: what to do first.
        link: to the pipeline's DAG in Airflow.
    """

    pipeline: str
    what: Literal["missed", "recovered", "ended"]
    state: str
    since: str
    until: str | None
    p99_ms: float | None
    unread: str
    oldest_unread: str | None
    target_ms: float
    reason: str
    advice: str
    link: str

    @classmethod
    def of(cls, what: News, episode: Episode, status: PipelineStatus, base_url: str) -> Alert:
        """The message about an episode, with the pipeline's figures of now.

        Args:
            what: the news to tell.
            episode: of which.
            status: of its pipeline.
            base_url: of Airflow's UI.
        """
        oldest = status.lag.oldest_unread
        return cls(
            pipeline=episode.pipeline,
            what="ended" if what == "recovered" and status.state in _NOT_LOADING else what,
            state=status.state,
            since=episode.began_at.isoformat(timespec="seconds"),
            until=None if episode.recovered_at is None else episode.recovered_at.isoformat(timespec="seconds"),
            p99_ms=status.freshness_window.p99_ms,
            unread=status.lag.in_words,
            oldest_unread=None if oldest is None else oldest.isoformat(timespec="seconds"),
            target_ms=status.target_ms,
            reason=shown_line(episode.reason),
            advice=_advice(what, status),
            link=f"{base_url.rstrip('/')}/dags/stream_load__{episode.pipeline}",
        )

    @property
    def subject(self) -> str:
        """The message in one line."""
        if self.what == "missed":
            what = "rejects what it reads" if self.state == "rejecting" else "misses its freshness target"
            return f"Freshet: {self.pipeline} {what}"
        if self.what == "ended":
            return f"Freshet: {self.pipeline} is {self.state}, and loads nothing; its alert has ended"
        return f"Freshet: {self.pipeline} keeps its freshness target again"

    @property
    def text(self) -> str:
        """The whole message: what, since when, how bad, what to do first."""
        now = "nothing was loaded in the last minute" if self.p99_ms is None else f"{self.p99_ms / 1000:.1f} s"
        lines = [
            f"{self.subject}.",
            "",
            f"Since:   {_readable(self.since)}",
            *([f"Ended:   {_readable(self.until)}"] if self.until else []),
            f"Reason:  {self.reason}",
            f"State:   {self.state}",
            f"Unread:  {self.unread}",
            f"Freshness p99 now: {now}; target: {self.target_ms / 1000:g} s",
            "",
            self.advice,
            self.link,
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The message as plain values."""
        return asdict(self)


def _advice(what: News, status: PipelineStatus) -> str:
    """The first step of the runbook."""
    if status.state in _NOT_LOADING:
        return _advice_to_load(status)
    if what == "recovered":
        return "Nothing is to be done about freshness. Tuples that were shed meanwhile are loaded by reprocess_shed."
    if status.state == "rejecting":
        return (
            f"What is rejected is kept, and becomes no fact: `freshet held {status.name}` shows the reasons. Correct "
            f"the source, the schema or the master data; `freshet requeue {status.name}` has it tried again."
        )
    if status.state == "late":
        return (
            "What has landed waits unread: look at the page Warehouse freshness for a batch that takes long, and at "
            f"the end of the driver's log: {status.log_file}."
        )
    if status.state == "overloaded":
        return (
            "More arrives than can be loaded in time. Look at the page Warehouse freshness: if the arrival rate does "
            "not fall again, give the lookups more memory or Spark more cores."
        )
    return (
        "Look at the page Warehouse freshness for the stage that takes the time: waiting and commit point to the "
        f"warehouse's disk, back_stage to reading master data. The log of the driver: {status.log_file}."
    )


def _advice_to_load(status: PipelineStatus) -> str:
    dag = f"stream_load__{status.name}"
    if status.state == "down":
        log = f" The end of the driver's log tells why: {status.log_file}." if status.log_file else ""
        return f"Look at the last run of {dag}; once the cause is fixed, clear its task run, or trigger it.{log}"
    if status.state == "restarting":
        return f"The run of {dag} restarts the driver. Should it end again, its log tells why: {status.log_file}."
    if status.state == "blocked":
        return f"Fix what blocks it: the driver keeps trying, and resumes by itself. Its log: {status.log_file}."
    if status.state == "stopped":
        return f"What arrives waits in the source. When it is to be loaded, trigger {dag} with the action start."
    return f"Its driver gets ready. If it does not come within five minutes, look at the last run of {dag}."


def _readable(moment: str) -> str:
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
