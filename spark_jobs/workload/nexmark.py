"""Nexmark: an auction site. People register and open auctions, people bid.

After the benchmark's published description: NEXMark (Tucker, Tufte, Papadimos, Maier, 2002), with the proportions, hot
items and prices that Apache Beam's and Flink's suites give it. Of 50 events one is a person, three are auctions, 46
bids. A quarter of all sellers and bidders, and half of the auctions that are bid on, are drawn from the recent ones;
the rest is one hot item, which changes after every hundred. A few bids name an auction that is yet to be opened.

Departures: every bid has an id of its own (a warehouse needs one), people have no credit cards, and no event is padded
to a size. An auction that is recent no more gets one bid that is marked as its last; a bid in ten thousand names one
that has had it, which the auction house must not take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.workload.draws import draws

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

STREAMS = ("persons", "auctions", "bids")
EVENT_TIMES = {"persons": "registered_at", "auctions": "opened_at", "bids": "bid_at"}

GROUP = 50  # events: first a person, then the auctions, then the bids
PERSONS, AUCTIONS, BIDS = 1, 3, 46
_FIRST_ID = 1000  # of persons and auctions
_IN_FLIGHT = 100  # auctions that are bid on at a time, but for the hot one
_ACTIVE = 1000  # persons who sell and bid at a time, but for the hot one
_AFTER_LAST = 1e-4  # Share of the bids that come when the last one has.
_LEAD = 10  # so far ahead a person or an auction may be named
_HOT_EVERY = 100
_HOT_AUCTIONS, _HOT_PEOPLE = 1 / 2, 3 / 4
_CATEGORIES = (10, 11, 12, 13, 14)

_FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_CITIES = ["Phoenix", "Palo Alto", "San Mateo", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
_STATES = ["AZ", "CA", "CA", "ID", "OR", "OR", "WA", "WA", "WA", "WY"]
_ITEMS = [
    f"{kind} {thing}" for kind in ("antique", "rare", "used", "new") for thing in ("chair", "clock", "book", "lamp")
]
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = [*_HOT_CHANNELS, *(f"channel-{number}" for number in range(100))]

SCHEMAS = {
    "persons": pa.schema(
        [
            ("person_id", pa.int64()),
            ("name", pa.string()),
            ("email", pa.string()),
            ("city", pa.string()),
            ("state", pa.string()),
            ("registered_at", pa.timestamp("us", "UTC")),
        ]
    ),
    "auctions": pa.schema(
        [
            ("auction_id", pa.int64()),
            ("item_name", pa.string()),
            ("category", pa.int32()),
            ("seller", pa.int64()),
            ("initial_bid", pa.int64()),
            ("reserve", pa.int64()),
            ("opened_at", pa.timestamp("us", "UTC")),
            ("expires_at", pa.timestamp("us", "UTC")),
        ]
    ),
    "bids": pa.schema(
        [
            ("bid_id", pa.int64()),
            ("auction_id", pa.int64()),
            ("bidder", pa.int64()),
            ("price", pa.int64()),
            ("channel", pa.string()),
            ("is_last", pa.bool_()),
            ("bid_at", pa.timestamp("us", "UTC")),
        ]
    ),
}
"""Columns of each stream; money is in cents."""


@dataclass(frozen=True)
class Nexmark:
    """Nexmark's events by their number: what number n holds depends on the seed and its time alone.

    Attributes:
        seed: equal seeds give equal events.
        auction_seconds: how long auctions are open on average. Nexmark derives it from its rate: as long as it takes
            to open a hundred more.
    """

    seed: int
    auction_seconds: float

    def take(self, first: int, moments: IntArray) -> dict[str, pa.Table]:
        """The events first..first+len(moments)-1, by stream, each in the order of their numbers.

        Args:
            first: number of the first event.
            moments: event times in microseconds since 1970 UTC, one an event.
        """
        stop = first + len(moments)
        borders = np.array([first, stop])
        people = np.arange(*_before(borders, 0, PERSONS).tolist())
        auctions = np.arange(*_before(borders, PERSONS, AUCTIONS).tolist())
        bids = np.arange(*_before(borders, PERSONS + AUCTIONS, BIDS).tolist())
        events = {
            "persons": people * GROUP,
            "auctions": auctions // AUCTIONS * GROUP + auctions % AUCTIONS + PERSONS,
            "bids": bids // BIDS * GROUP + bids % BIDS + PERSONS + AUCTIONS,
        }
        return {
            "persons": self._persons(people, moments[events["persons"] - first]),
            "auctions": self._auctions(auctions, events["auctions"], moments[events["auctions"] - first]),
            "bids": self._bids(bids, events["bids"], moments[events["bids"] - first]),
        }

    def _persons(self, numbers: IntArray, moments: IntArray) -> pa.Table:
        first_name, last_name, place = self._draws(0, numbers, 3)
        first_names, last_names = _among(_FIRST_NAMES, first_name), _among(_LAST_NAMES, last_name)
        names = [f"{given} {family}" for given, family in zip(first_names, last_names, strict=True)]
        emails = [f"{name.replace(' ', '.').lower()}@example.com" for name in names]
        places = (_CITIES, _STATES)
        return _table("persons", numbers + _FIRST_ID, names, emails, *(_among(each, place) for each in places), moments)

    def _auctions(self, numbers: IntArray, events: IntArray, moments: IntArray) -> pa.Table:
        seller, item, category, initial, reserve, length = self._draws(1, numbers, 6)
        initial_bid = _price(initial)
        # Between nothing and twice the mean, at least a millisecond.
        open_for = (1000 + length * 2e6 * self.auction_seconds).astype(np.int64)
        return _table(
            "auctions",
            numbers + _FIRST_ID,
            _among(_ITEMS, item),
            np.array(_CATEGORIES, np.int32)[_positions(category, len(_CATEGORIES))],
            _recent(_before(events + 1, 0, PERSONS), _ACTIVE, _HOT_PEOPLE, seller) + _FIRST_ID,
            initial_bid,
            initial_bid + _price(reserve),
            moments,
            moments + open_for,
        )

    def _bids(self, numbers: IntArray, events: IntArray, moments: IntArray) -> pa.Table:
        auction, bidder, price, channel = self._draws(2, numbers, 4)
        auctions = _recent(_before(events, PERSONS, AUCTIONS), _IN_FLIGHT, _HOT_AUCTIONS, auction)
        # As many auctions as a group opens have ended with it: their last bids are the first ones of the group.
        ended = numbers // BIDS * AUCTIONS + numbers % BIDS - _IN_FLIGHT - 1
        is_last = (numbers % BIDS < AUCTIONS) & (ended >= 0)
        after_last = ~is_last & (auction >= 1 - _AFTER_LAST) & (ended >= AUCTIONS + BIDS)
        auctions = np.where(is_last, ended, np.where(after_last, ended - numbers % BIDS - AUCTIONS, auctions))
        hot = _positions(channel * 2, len(_HOT_CHANNELS))
        cold = len(_HOT_CHANNELS) + _positions(channel * 2 - 1, len(_CHANNELS) - len(_HOT_CHANNELS))
        return _table(
            "bids",
            numbers,
            auctions + _FIRST_ID,
            _recent(_before(events, 0, PERSONS), _ACTIVE, _HOT_PEOPLE, bidder) + _FIRST_ID,
            _price(price),
            pa.array(_CHANNELS).take(pa.array(np.where(channel < 0.5, hot, cold))),  # half by one of the hot ones
            is_last,
            moments,
        )

    def _draws(self, purpose: int, numbers: IntArray, each: int) -> FloatArray:
        return draws(self.seed, purpose, int(numbers[0]) if len(numbers) else 0, len(numbers), each)


def _before(events: IntArray, start: int, count: int) -> IntArray:
    """How many of a stream come before an event, if in each group it has the `count` events from `start` on."""
    groups, rest = np.divmod(events, GROUP)
    return groups * count + np.clip(rest - start, 0, count)


def _recent(there: IntArray, most: int, hot_share: float, uniform: FloatArray) -> IntArray:
    """Numbers of persons or auctions: the hot one, or any of the `most` recent ones and of those soon to come.

    Args:
        there: how many there are already, by event.
        most: how many count as recent.
        hot_share: share of the hot one.
        uniform: numbers in [0, 1).
    """
    last = np.maximum(there - 1, 0)
    oldest = np.maximum(last - most, 0)
    cold = oldest + ((uniform - hot_share) / (1 - hot_share) * (last - oldest + 1 + _LEAD)).astype(np.int64)
    return np.where(uniform < hot_share, last // _HOT_EVERY * _HOT_EVERY, cold)


def _price(uniform: FloatArray) -> IntArray:
    """Prices in cents from 1 to a million, as likely below 1000 as above."""
    return np.rint(100 * 10 ** (6 * uniform)).astype(np.int64)


def _positions(uniform: FloatArray, size: int) -> IntArray:
    return np.clip((uniform * size).astype(np.int64), 0, size - 1)


def _among(texts: list[str], uniform: FloatArray) -> list[str]:
    return [texts[position] for position in _positions(uniform, len(texts))]


def _table(stream: str, *columns: npt.ArrayLike) -> pa.Table:
    schema = SCHEMAS[stream]
    return pa.table([pa.array(values).cast(kind) for values, kind in zip(columns, schema.types, strict=True)], schema)
