"""What a join's own work costs: seconds of processor time for each tuple that it handles, and for each step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessorCosts:
    """Seconds of processor time by what is done (000 Table 1); the last four are ours.

    Attributes:
        probe: a tuple of R looked up among the waiting stream tuples, c_H.
        front_probe: a stream tuple looked up in the front stage; part of c_H in 003.
        emit: a joined tuple handed on, c_O.
        evict: a stream tuple taken out of hash table and queue, c_E.
        read: a stream tuple taken from the stream buffer, c_S.
        append: a stream tuple put into hash table and queue, c_A.
        per_access: a step of the join, whatever it settles: choosing what to read, and calls.
        upkeep_per_access: what a front stage adds to a step of its back stage.
        upkeep_per_miss: a stream tuple that a front stage misses, counted, offered to it and, some of them, taken in.
        multimap: the constants of MESHJOIN's hash table, which finds tuples by their keys alone, where they differ
            from those of HYBRIDJOIN's, which keeps the tuples of a page together.
    """

    probe: float
    front_probe: float
    emit: float
    evict: float
    read: float
    append: float
    per_access: float = 0.0
    upkeep_per_access: float = 0.0
    upkeep_per_miss: float = 0.0
    multimap: ProcessorCosts | None = None

    @property
    def per_joined_tuple(self) -> float:
        """Seconds that every tuple of the back stage costs whatever the algorithm: c_O + c_E + c_S + c_A."""
        return self.emit + self.evict + self.read + self.append


FREE_PROCESSOR = ProcessorCosts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

# An assumption: 000 and 003 name the constants but print no values. These are of the order that java.util's
# hash maps and linked lists reach on the machine of their experiments (a 2.4 GHz core, 2010): a cache miss or two
# for a probe, an allocation for a tuple put in or handed on.
PAPER_ERA = ProcessorCosts(probe=0.2e-6, front_probe=0.2e-6, emit=0.5e-6, evict=0.3e-6, read=0.3e-6, append=0.5e-6)
