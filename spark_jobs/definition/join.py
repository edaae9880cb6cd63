"""How several streams are joined: the part `join` of a definition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from spark_jobs.definition.fates import EXPIRED, EXPIRED_REJECTED, JOINED, Fate
from spark_jobs.definition.fields import Bytes, Duration, Part, Word
from spark_jobs.definition.former_spelling import HINTS
from spark_jobs.definition.matching import Match, matched_columns
from spark_jobs.definition.problems import shown, suggestion
from spark_jobs.definition.stream_keys import Keys


class FixedWindow(Part):
    """Windows one after the other, all of one length, from 1970 on: tuples of one window are joined (004 §5.1)."""

    fixed: Duration = Field(examples=["window: {fixed: 1h}"])


Window = Annotated[
    Annotated[Duration, Tag("<sliding>")] | Annotated[FixedWindow, Tag("<fixed>")],
    Discriminator(lambda value: "<fixed>" if isinstance(value, dict | FixedWindow) else "<sliding>"),
]
"""A mapping is fixed windows; anything else the length of a sliding one."""


Expired = Literal["hold", "reject", "emit"]
ExpiredOfStreams = Annotated[
    Annotated[Expired, Tag("<all>")] | Annotated[dict[Word, Expired], Tag("<each>")],
    Discriminator(lambda value: "<each>" if isinstance(value, dict) else "<all>"),
]
"""A mapping is of each stream; anything else of all."""


class Punctuated(Part):
    """Which column tells that no more tuples of a key come in a stream.

    Attributes:
        when: a boolean column of the stream: the tuple in which it is true is the last of its key.
        count: `stream.column`, a whole number in another stream's tuples: how many of their key come.
    """

    when: Word | None = Field(default=None, examples=["punctuations: {bids: {when: is_last}}"])
    count: Word | None = Field(default=None, examples=["punctuations: {items: {count: orders.n_items}}"])

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Punctuated:
        if (self.when is None) == (self.count is None):
            raise ValueError("Write when: a boolean column, or count: a column of another stream; one of both.")
        return self

    @property
    def told_by(self) -> tuple[str, str]:
        """Of `count`, the other stream and its column."""
        assert self.count is not None
        stream, _, column = self.count.partition(".")
        return stream, column


def _rule(value: Any) -> Any:
    if value != "unique":
        allowed = "unique, {when: a boolean column}, {count: stream.column}"
        raise ValueError(f"{shown(value)} is not allowed.{suggestion(value, ['unique'])} Allowed: {allowed}.")
    return value


Punctuation = Annotated[
    Annotated[Literal["unique"], BeforeValidator(_rule), Tag("<rule>")] | Annotated[Punctuated, Tag("<column>")],
    Discriminator(lambda value: "<column>" if isinstance(value, dict | Punctuated) else "<rule>"),
]
"""What tells that no more tuples of a key come (001 §2.2); `unique`: each tuple does, of its own."""


class Join(Part):
    """When tuples of the streams belong together, and what becomes of those that find no partner.

    Attributes:
        on: stream -> its columns that must match the other streams' (one name, or a list).
        match: how: `equal`; or `overlap`, of the last two columns, [from, to); or the last one at most a band apart.
            Those before are equal. Of three streams and more each two must match.
        window: how long a tuple is valid from its event time on: tuples are joined that are valid at a common time
            (004 §5.1). Or fixed windows. None: for ever.
        punctuations: stream -> what tells that no more of a key come in it. What could only be joined with more of them
            leaves the state; one that comes all the same is rejected.
        expired: what becomes of a tuple that found no partner in its time: held, or rejected, or emitted as a joined
            tuple with nulls for the rest (outer join); one for all streams, or one for each.
        allowed_lateness: how far out of order a stream's events may come; later ones are rejected, and kept.
        idle_timeout: a stream that has been silent for so long does not hold the others back.
        algorithm: `temporal_join`, which `auto` chooses always; the others of spark_jobs.joins.stream_stream run in
            `freshet bench` alone.
        memory: bytes that the join's state may take, on all workers together.
        most_facts: a tuple that would make more facts, judged by how many tuples of the other streams have its key, is
            rejected; None: all may.
        keep_versions: how long versions of the state are kept: a warehouse that is restored to how it was so long ago
            finds its state.
    """

    hints: ClassVar[Mapping[str, str]] = {"required": "It is a key of `accumulate`.", **HINTS}

    on: Keys
    match: Match = Field(default="equal", examples=["match: overlap"])
    window: Window | None = Field(default=None, examples=["window: 2h", "window: {fixed: 1h}"])
    punctuations: dict[Word, Punctuation] = Field(
        default={}, examples=["punctuations: {auctions: unique, bids: {when: is_last}}"]
    )
    expired: ExpiredOfStreams = Field(
        default="hold", examples=["expired: hold", "expired: {orders: emit, payments: hold}"]
    )
    allowed_lateness: Duration = Field(default=timedelta(minutes=10), examples=["allowed_lateness: 10m"])
    idle_timeout: Duration = Field(default=timedelta(minutes=1), examples=["idle_timeout: 1m"])
    algorithm: Literal["auto", "temporal_join"] = Field(default="auto", examples=["algorithm: auto"])
    memory: Bytes = Field(default=64 << 20, examples=["memory: 64MB"])
    most_facts: int | None = Field(default=None, ge=1, examples=["most_facts: 1000"])
    keep_versions: Duration = Field(default=timedelta(hours=1), examples=["keep_versions: 1h"])

    def becomes(self, stream: str) -> Expired:
        """What becomes of the expired tuples of a stream."""
        return self.expired.get(stream, "hold") if isinstance(self.expired, dict) else self.expired

    def settled(self, stream: str, fate: Fate) -> Fate:
        """What becomes of a tuple of a stream that has come to a fate: of those that expire this says it."""
        return settled_as(fate, self.becomes(stream))

    @property
    def punctuation_columns(self) -> frozenset[tuple[str, str]]:
        """The streams and columns that tell when no more of a key come."""
        told = ((name, each) for name, each in self.punctuations.items() if isinstance(each, Punctuated))
        return frozenset((name, each.when) if each.when is not None else each.told_by for name, each in told)

    def equal(self, stream: str) -> tuple[str, ...]:
        """The columns of a stream that must equal the others'."""
        return self.on[stream][: len(self.on[stream]) - matched_columns(self.match)]

    def matched(self, stream: str) -> tuple[str, ...]:
        """The columns of a stream that must match them otherwise."""
        return self.on[stream][len(self.equal(stream)) :]

    @property
    def emitting(self) -> frozenset[str]:
        """The streams whose expired tuples are emitted."""
        return frozenset(stream for stream in self.on if self.becomes(stream) == "emit")

    @property
    def lacking(self) -> frozenset[str]:
        """The streams of which joined tuples may have no part."""
        return frozenset(stream for stream in self.on if self.emitting - {stream})

    @property
    def window_length(self) -> timedelta | None:
        """How long a tuple is valid at most; None: for ever."""
        return self.window.fixed if isinstance(self.window, FixedWindow) else self.window


def settled_as(fate: Fate, expired: Expired) -> Fate:
    """What becomes of a tuple of this fate where those of its stream that expire are held, rejected or emitted."""
    if fate.share != EXPIRED.share or expired == "hold":
        return fate
    return JOINED if expired == "emit" else EXPIRED_REJECTED
