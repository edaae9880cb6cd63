"""What may become of a tuple: one table of all its fates, which all ask that hold, count, show or retry tuples.

A new fate is a row here, and the code that gives it to tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Place = Literal["shed", "unmatched", "rejected"]
PLACES: tuple[Place, ...] = ("shed", "unmatched", "rejected")
"""Where tuples lie that are not facts: arrived = facts + shed + unmatched + rejected."""

WaitingPlace = Literal["shed", "unmatched"]
WAITING_PLACES: tuple[WaitingPlace, ...] = ("shed", "unmatched")
"""Those of them whose tuples reprocessing tries again."""

Share = Literal["joined", "waiting", "expired", "rejected", "duplicates"]
"""Where an event of one of several streams is: arrived = joined + waiting + expired + rejected + duplicates."""

Retry = Literal["each run", "late join", "its row"]


@dataclass(frozen=True)
class Fate:
    """One thing that may become of a tuple.

    Attributes:
        name: as `fate` in freshet.held_tuple and freshet.batch_fate has it.
        sentence: what happened, for people.
        place: where such tuples are held; None: they are not.
        share: where one is in the sum of its stream, if it is of one of several; None: it counts to none there.
        retried: when Freshet tries again without being asked: in each reprocessing run that finds it due; once a
            late tuple can be joined after all; once the part that makes its row has come. None: never.
        requeue: whether `freshet requeue` may make a fact of it.
        barred: whether the tuple is sound, and yet kept from the join of its streams.
    """

    name: str
    sentence: str
    place: Place | None = None
    share: Share | None = None
    retried: Retry | None = None
    requeue: bool = False
    barred: bool = False

    def __str__(self) -> str:
        return self.name


SHED = Fate("shed", "It was not looked up, for lack of time.", "shed", retried="each run")
REQUEUED = Fate("requeued", "It was rejected, and waits for the try that was asked for.", "shed", retried="each run")
JOINED_LATE = Fate("joined_late", "Reprocessing has joined it: a part of it was late.", "shed", retried="each run")

UNMATCHED = Fate("unmatched", "The master data has no tuple of its key yet.", "unmatched", retried="each run")
EXPIRED = Fate("expired", "It found no partner in its time.", "unmatched", "expired", "late join")
WAITING = Fate("waiting", "It waits for its partner, or for the part that makes its row.", "unmatched", "waiting",
               "its row")  # fmt: skip

MALFORMED = Fate("malformed", "Its record could not be read.", "rejected", "rejected", requeue=True)
UNIDENTIFIED = Fate("unidentified", "It has no event id, or event time, that can be used.", "rejected", "rejected",
                    requeue=True)  # fmt: skip
CAN_NOT_MATCH = Fate("can_not_match", "No tuple can ever match its key.", "rejected", "rejected", requeue=True)
NOT_FOUND = Fate("not_found", "The master data has no tuple of its key, and on_unmatched is reject.", "rejected",
                 "rejected", requeue=True)  # fmt: skip
REFUSED = Fate("refused", "The fact table did not take it.", "rejected", "rejected", requeue=True)
GIVEN_UP = Fate("given_up", "It was tried as often as retry allows.", "rejected", "rejected", requeue=True)
NOT_READ_BACK = Fate("not_read_back", "What is held of it can't be read as the same event.", "rejected", "rejected",
                     requeue=True)  # fmt: skip
LATE = Fate("late", "It came after its stream's watermark.", "rejected", "rejected", "late join",
            barred=True)  # fmt: skip
AFTER_LAST = Fate("after_last", "It came after the last of its key, by a punctuation.", "rejected", "rejected",
                  barred=True)  # fmt: skip
TOO_MANY = Fate("too_many", "It would make more facts than most_facts allows.", "rejected", "rejected", barred=True)
SECOND_PART = Fate("second_part", "Its fact has a part of its stream already.", "rejected", "rejected")
EXPIRED_REJECTED = Fate("expired_rejected", "It found no partner in its time, and expired is reject.", "rejected",
                        "expired")  # fmt: skip
REJECTED = Fate("rejected", "It was rejected; a former version has not told how.", "rejected", "rejected",
                requeue=True)  # fmt: skip

FATES: dict[str, Fate] = {
    fate.name: fate
    for fate in (SHED, REQUEUED, JOINED_LATE, UNMATCHED, EXPIRED, WAITING, MALFORMED, UNIDENTIFIED, CAN_NOT_MATCH,
                 NOT_FOUND, REFUSED, GIVEN_UP, NOT_READ_BACK, LATE, AFTER_LAST, TOO_MANY, SECOND_PART, EXPIRED_REJECTED,
                 REJECTED)
}  # fmt: skip
"""All of them, by name."""


def named(fates: Iterable[Fate] = tuple(FATES.values()), **wanted: object) -> list[str]:
    """Names of the fates whose attributes are these: `named(share="expired")`."""
    return [fate.name for fate in fates if all(getattr(fate, key) == value for key, value in wanted.items())]


def listed(names: Iterable[str]) -> str:
    """SQL: names of fates or places as a list, for `IN (...)`."""
    return ", ".join(f"'{name}'" for name in names)
