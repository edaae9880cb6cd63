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

FailedPlace = Literal["unmatched", "rejected"]
FAILED_PLACES: tuple[FailedPlace, ...] = ("unmatched", "rejected")
"""Those of them whose tuples became no facts for what they are, and not for want of time."""

Share = Literal["joined", "waiting", "expired", "rejected", "duplicates"]
"""Where an event of one of several streams is: arrived = joined + waiting + expired + rejected + duplicates."""

OPEN_SHARES: tuple[Share, ...] = ("waiting", "expired", "rejected")
"""Those of them that are in no result, and known for the first time."""

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
        awaits_try: whether it only waits for its next try, and is counted as requeued: nothing has shed it.
    """

    name: str
    sentence: str
    place: Place | None = None
    share: Share | None = None
    retried: Retry | None = None
    requeue: bool = False
    barred: bool = False
    awaits_try: bool = False

    def __str__(self) -> str:
        return self.name


SHED = Fate("shed", "It was not looked up, for lack of time.", place="shed", retried="each run")
REQUEUED = Fate(
    "requeued",
    "It was rejected, and waits for the try that was asked for.",
    place="shed",
    retried="each run",
    awaits_try=True,
)
JOINED_LATE = Fate(
    "joined_late",
    "Reprocessing has joined it: a part of it was late.",
    place="shed",
    retried="each run",
    awaits_try=True,
)

UNMATCHED = Fate("unmatched", "The master data has no tuple of its key yet.", place="unmatched", retried="each run")
EXPIRED = Fate("expired", "It found no partner in its time.", place="unmatched", share="expired", retried="late join")
EXPIRED_EARLY = Fate(
    "expired_early",
    "No partner of it is to come any more, by a punctuation.",
    place="unmatched",
    share="expired",
    retried="late join",
)
WAITING = Fate(
    "waiting",
    "It waits for its partner, or for the part that makes its row.",
    place="unmatched",
    share="waiting",
    retried="its row",
)

MALFORMED = Fate("malformed", "Its record could not be read.", place="rejected", share="rejected", requeue=True)
POISON = Fate("poison", "Reading its record ended the process that read it.", place="rejected", share="rejected")
UNIDENTIFIED = Fate(
    "unidentified",
    "It has no event id, or event time, that can be used.",
    place="rejected",
    share="rejected",
    requeue=True,
)
CAN_NOT_MATCH = Fate(
    "can_not_match", "No tuple can ever match its key.", place="rejected", share="rejected", requeue=True
)
NOT_FOUND = Fate(
    "not_found",
    "The master data has no tuple of its key, and on_unmatched is reject.",
    place="rejected",
    share="rejected",
    requeue=True,
)
REFUSED = Fate("refused", "The fact table did not take it.", place="rejected", share="rejected", requeue=True)
GIVEN_UP = Fate("given_up", "It was tried as often as retry allows.", place="rejected", share="rejected", requeue=True)
NOT_READ_BACK = Fate(
    "not_read_back",
    "What is held of it can't be read as the same event.",
    place="rejected",
    share="rejected",
    requeue=True,
)
LATE = Fate(
    "late",
    "It came after its stream's watermark.",
    place="rejected",
    share="rejected",
    retried="late join",
    barred=True,
)
AFTER_LAST = Fate(
    "after_last",
    "It came after the last of its key, by a punctuation.",
    place="rejected",
    share="rejected",
    barred=True,
)
TOO_MANY = Fate(
    "too_many", "It would make more facts than most_facts allows.", place="rejected", share="rejected", barred=True
)
SECOND_PART = Fate("second_part", "Its fact has a part of its stream already.", place="rejected", share="rejected")
EXPIRED_REJECTED = Fate(
    "expired_rejected", "It found no partner in its time, and expired is reject.", place="rejected", share="expired"
)
REJECTED = Fate(
    "rejected", "It was rejected; the ledger does not tell why.", place="rejected", share="rejected", requeue=True
)

JOINED = Fate("joined", "It is in a result.", share="joined")
DUPLICATE = Fate("duplicate", "Its event is known already.", share="duplicates")
PURGED = Fate("purged", "It left the state for the other streams' punctuations, in a result or expired.")
PUNCTUATION = Fate("punctuation", "It said that no more of its key come.")

FATES: dict[str, Fate] = {known.name: known for known in list(globals().values()) if isinstance(known, Fate)}
"""All of them, by name."""


def named(**wanted: object) -> list[str]:
    """Names of the fates whose attributes are these: `named(share="expired")`."""
    return [fate.name for fate in FATES.values() if all(getattr(fate, key) == value for key, value in wanted.items())]


def listed(names: Iterable[str]) -> str:
    """SQL: names of fates or places as a list, for `IN (...)`."""
    return ", ".join(f"'{name}'" for name in names)
