"""A part of an outcome that is loaded in one transaction, prepared before that begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.columns.arrow_buffers import plain_array
from spark_jobs.columns.copy_encoding.rows import EncodedRows, encode
from spark_jobs.columns.event_id import MOST_CHARACTERS, event_id_texts, may_be_too_long
from spark_jobs.definition.fates import REFUSED, UNIDENTIFIED
from spark_jobs.definition.stream_tuple import BATCH_NO, EventColumns
from spark_jobs.loading.event_hashes import hashes_of, with_hashes
from spark_jobs.loading.held_rows import HeldRows
from spark_jobs.loading.outcome import Held, Outcome
from spark_jobs.loading.refusals import Refusal, blame_table
from spark_jobs.sketches.id_sketch import IdSketch
from spark_jobs.warehouse.fact_table import FactColumn, FactTable

# A transaction holds no more. Larger ones load no faster, and their tuples must be kept in memory until the commit, in
# case they have to be loaded again with care.
MOST_ROWS = 131_072
MOST_BYTES = 24 << 20


@dataclass(frozen=True)
class EncodedFacts:
    """Facts that are ready to be stored.

    Attributes:
        tuples: shape (n,), all of whose values fit the fact table.
        rows: the same, encoded.
    """

    tuples: pa.Table
    rows: EncodedRows

    @property
    def hashes(self) -> NDArray[np.int64]:
        """The hash codes of their event ids, which the tuples of a chunk carry; shape (n,)."""
        return hashes_of(self.tuples)

    @classmethod
    def encode(cls, tuples: pa.Table, fact: FactTable) -> EncodedFacts:
        """Encode tuples that are known to fit."""
        return cls(tuples, encode(tuples, fact.targets).rows)

    def where(self, kept: np.ndarray, fact: FactTable) -> EncodedFacts:
        """Those that are kept; bool, shape (n,)."""
        return self if kept.all() else EncodedFacts.encode(self.tuples.filter(pa.array(kept)), fact)


@dataclass(frozen=True)
class Chunk:
    """Tuples of one transaction.

    Attributes:
        facts: tuples to become facts, with the hash codes of their event ids; None if there are none.
        held: the others, those that don't fit the fact table among them.
        tuples: how many tuples the chunk was made from.
    """

    facts: EncodedFacts | None
    held: HeldRows
    tuples: int

    def ids(self) -> IdSketch:
        """The event ids of its tuples. O(n)."""
        ids = IdSketch(self.held.hashes)
        if self.facts is not None:
            ids.add(self.facts.hashes)
        return ids

    def where(self, kept: np.ndarray, fact: FactTable) -> Chunk:
        """The chunk without the facts that are not kept; bool, one for each. They still count among its tuples."""
        return self if self.facts is None else replace(self, facts=self.facts.where(kept, fact))


def prepare(part: Outcome, event: EventColumns, fact: FactTable, batch_no: int, units: Sequence[str] = ()) -> Chunk:
    """Encode all that a transaction is to store; facts that don't fit the table become rejected tuples.

    Args:
        part: what was joined.
        event: the pipeline's event columns.
        fact: its fact table.
        batch_no: number of the batch that stores it.
        units: what its ranges lie in, by their numbers: the files.

    Raises:
        LoadBlockedError: most facts don't fit the table for one reason.
    """
    tuples = sum(group.tuples.num_rows for group in part.held)
    held = list(part.held)
    facts = None
    if part.facts is not None:
        tuples += part.facts.num_rows
        facts, rejected = fitting(with_hashes(part.facts, fact.key), fact, batch_no)
        held += rejected
    return Chunk(facts, HeldRows.build(held, event, fact.key, batch_no, units), tuples)


def fitting(tuples: pa.Table, fact: FactTable, batch_no: int) -> tuple[EncodedFacts, list[Held]]:
    """The tuples that fit the fact table, encoded; the others as rejected tuples. Arguments, errors as of `prepare`."""
    tuples, rejected = without_long_ids(_in_order(_numbered(tuples, fact, batch_no), fact), fact.key)
    encoding = encode(tuples, fact.targets)
    if encoding.fitting is not None:
        blame_table(fact, [Refusal.by_encoder(complaint) for complaint in encoding.complaints], tuples.num_rows)
        reasons = pa.array(encoding.complaints, pa.string())
        rejected.append(Held(REFUSED, reasons, None, tuples.take(pa.array(encoding.unfit))))
        tuples = tuples.take(pa.array(encoding.fitting))
    return EncodedFacts(tuples, encoding.rows), rejected


def cut(outcome: Outcome) -> Iterator[Outcome]:
    """Cut an outcome into parts of at most `MOST_ROWS` tuples, fewer where they are large; facts come first."""
    facts: pa.Table | None = None
    held: list[Held] = []
    filled = 0.0
    for group, tuples, share in _pieces(outcome):
        if filled and filled + share > 1:
            yield Outcome(facts, held)
            facts, held, filled = None, [], 0.0
        filled += share
        if group is None:
            facts = tuples
        else:
            held.append(group)
    if filled:
        yield Outcome(facts, held)


def chunk_rows(tuples: pa.Table) -> int:
    """How many tuples like these make a chunk: as many as a transaction should hold."""
    return max(1, min(MOST_ROWS, MOST_BYTES * tuples.num_rows // max(tuples.nbytes, 1)))


def _pieces(outcome: Outcome) -> Iterator[tuple[Held | None, pa.Table, float]]:
    """Parts of each table, and the share of a chunk that each fills; the group is None for facts."""
    groups: Sequence[Held | None] = [None] if outcome.facts is not None else []
    for group in [*groups, *outcome.held]:
        tuples = outcome.facts if group is None else group.tuples
        assert tuples is not None
        step = chunk_rows(tuples)
        for start in range(0, tuples.num_rows, step):
            part = tuples.slice(start, step)
            yield None if group is None else _part_of(group, start, part), part, part.num_rows / step


def _part_of(group: Held, start: int, part: pa.Table) -> Held:
    reason = group.reason if isinstance(group.reason, str) else group.reason.slice(start, part.num_rows)
    return replace(group, reason=reason, tuples=part)


def _numbered(tuples: pa.Table, fact: FactTable, batch_no: int) -> pa.Table:
    """The tuples with the number of their batch, where the fact table wants it."""
    if all(column.source != BATCH_NO for column in fact.columns):
        return tuples
    return tuples.append_column(BATCH_NO, pa.array(np.full(tuples.num_rows, batch_no, np.int64)))


def _in_order(tuples: pa.Table, fact: FactTable) -> pa.Table:
    """The tuples in the order of their event ids, by which neighbours in the key's index are stored together.

    Where ids are random, as UUIDs are, PostgreSQL takes half of the processor time for them so.
    """
    names = [column.source for column in fact.key]
    first = plain_array(tuples[names[0]])
    if pc.all(pc.less_equal(first[:-1], first[1:])).as_py() is not False:
        return tuples
    ids = pa.table([plain_array(tuples[name]) for name in names], names=names)
    return tuples.take(pc.sort_indices(ids, [(name, "ascending") for name in names]))


def without_long_ids(tuples: pa.Table, key: Sequence[FactColumn]) -> tuple[pa.Table, list[Held]]:
    """The tuples whose event ids can be keys; the others as rejected tuples. O(1) a tuple where all can.

    Args:
        tuples: shape (n,).
        key: the columns of the event id.
    """
    if not may_be_too_long(tuples, key):
        return tuples, []
    too_long = pc.fill_null(pc.greater(pc.binary_length(event_id_texts(tuples, key)), MOST_CHARACTERS), False)
    if not pc.any(too_long).as_py():
        return tuples, []
    reason = f"event id: its text has more than {MOST_CHARACTERS} characters, too many for a key"
    return tuples.filter(pc.invert(too_long)), [Held(UNIDENTIFIED, reason, None, tuples.filter(too_long))]
