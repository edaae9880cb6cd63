"""What follows an order: its payment and its shipment, each of which may fail to come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import ndtri

from spark_jobs.workload.draws import draws

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

EVENT_TIMES = {"payments": "paid_at", "shipments": "shipped_at"}
LONGEST_SECONDS = 3600.0
"""No part comes later than this after its order."""

_METHODS = ("card", "invoice", "direct debit", "wallet")
_CARRIERS = ("DHL", "FedEx", "GLS", "Hermes", "UPS")
# Ids of parts are not those of orders: a join that mixed the two up would be empty.
_FIRST_PAYMENT, _FIRST_SHIPMENT = 4_000_000_000_000, 7_000_000_000_000


@dataclass(frozen=True)
class PartDelay:
    """When a part follows its order: log-normal, as times that people take are.

    Attributes:
        median: seconds.
        spread: standard deviation of the logarithm; with 1, one in a hundred takes ten times the median.
        never: share of orders that it never follows.
        long: share of those that it follows a good while after, LONGEST_SECONDS at most.
    """

    median: float
    spread: float
    never: float
    long: float

    def seconds(self, uniform: FloatArray) -> FloatArray:
        """Seconds from the order, shape (n,); NaN where the part never comes.

        Args:
            uniform: numbers in [0, 1), shape (3, n).
        """
        comes, is_long, when = uniform
        usual = self.median * np.exp(self.spread * ndtri(np.maximum(when, 1e-12)))
        seconds = np.where(is_long < self.long, LONGEST_SECONDS * (0.2 + 0.8 * when), usual)
        return np.where(comes < self.never, np.nan, np.minimum(seconds, LONGEST_SECONDS))


# Compressed: what takes hours takes seconds here. Shipping does not wait for the payment, so it may come first.
PAYMENT = PartDelay(median=15.0, spread=1.0, never=0.03, long=0.005)
SHIPMENT = PartDelay(median=40.0, spread=0.7, never=0.05, long=0.01)


def parts_of(orders: pa.Table, first: int, moments: IntArray, seed: int) -> dict[str, tuple[pa.Table, IntArray]]:
    """The payments and shipments of consecutive orders, in the orders' sequence.

    Args:
        orders: with o_orderkey and o_totalprice.
        first: the first order's number: what follows an order depends on it and the seed alone.
        moments: the orders' event times in microseconds since 1970 UTC.
        seed: equal seeds give equal parts.

    Returns:
        by stream, the parts, and the positions of their orders.
    """
    keys, prices = orders["o_orderkey"], orders["o_totalprice"]
    paid, payments, method = _follow(PAYMENT, moments, draws(seed, 10, first, len(moments), 4))
    shipped, shipments, carrier = _follow(SHIPMENT, moments, draws(seed, 11, first, len(moments), 4))
    payment_keys, shipment_keys = keys.take(payments), keys.take(shipments)
    return {
        "payments": (
            pa.table(
                {
                    "payment_id": pa.array(payment_keys.to_numpy() + _FIRST_PAYMENT),
                    "order_id": payment_keys,
                    "amount": prices.take(payments),
                    "method": _among(_METHODS, method),
                    "paid_at": paid,
                }
            ),
            payments.to_numpy(),
        ),
        "shipments": (
            pa.table(
                {
                    "shipment_id": pa.array(shipment_keys.to_numpy() + _FIRST_SHIPMENT),
                    "order_id": shipment_keys,
                    "carrier": _among(_CARRIERS, carrier),
                    "shipped_at": shipped,
                }
            ),
            shipments.to_numpy(),
        ),
    }


def _follow(delay: PartDelay, moments: IntArray, uniform: FloatArray) -> tuple[pa.Array, pa.Array, FloatArray]:
    """Event times of the parts that come, the positions of their orders, and a uniform number for each."""
    seconds = delay.seconds(uniform[:3])
    comes = np.flatnonzero(~np.isnan(seconds))
    times = moments[comes] + np.rint(seconds[comes] * 1e6).astype(np.int64)
    return pa.array(times).cast(pa.timestamp("us", "UTC")), pa.array(comes), uniform[3][comes]


def _among(texts: tuple[str, ...], uniform: FloatArray) -> pa.Array:
    return pa.array(texts).take(pa.array((uniform * len(texts)).astype(np.int64)))
