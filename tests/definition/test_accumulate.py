"""Definitions of facts that are filled in part by part."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from spark_jobs.definition import PipelineDefinition
from spark_jobs.definition.problems import InconsistentDefinitionError
from spark_jobs.definition.shapes import AccumulatedStreams
from tests.loading.accumulation.fulfilment import FULFILMENT

LOOKUP = {
    "relation": "master.customer",
    "on": {"orders.customer": "name"},
    "fetch": {"customer_sk": "sk"},
    "on_unmatched": "reject",
}


def define(change: Callable[[dict[str, Any]], object]) -> PipelineDefinition:
    content = copy.deepcopy(FULFILMENT)
    change(content)
    return PipelineDefinition.model_validate(content)


def test_what_is_written_into_the_ledger_is_read_as_the_same() -> None:
    definition = define(lambda content: content.update(lookups=[LOOKUP]))
    assert isinstance(definition.shape, AccumulatedStreams)
    assert PipelineDefinition.model_validate_json(definition.model_dump_json(by_alias=True)) == definition


MISTAKES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a window": (
        lambda content: content["accumulate"].update(window="2h"),
        "accumulate.window\n  Extra inputs are not permitted",
    ),
    "an event that can't be told": (
        lambda content: content["fact"]["columns"].pop("payment_id"),
        "fact.columns: leaves out payments.payment_id, but with accumulate the fact must tell which events",
    ),
    "a stream of two required ones that only the key tells of": (
        lambda content: content["accumulate"].update(required=["orders", "payments"]),
        "fact.columns: keeps the event id of orders in the key alone, which a fact has before that part is there",
    ),
    "a lookup of a part that makes no rows": (
        lambda content: content.update(lookups=[{**LOOKUP, "on": {"payments.payment_id": "name"}}]),
        "is not a column of orders. With accumulate lookups are made for the first required stream alone",
    ),
    "a part that nothing would try again": (
        lambda content: content.update(lookups=[{**LOOKUP, "on_unmatched": "hold"}]),
        "lookups[0].on_unmatched: hold, which is the default, is not possible with accumulate",
    ),
}


@pytest.mark.parametrize(("change", "told"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_told_with_their_place(change: Callable[[dict[str, Any]], object], told: str) -> None:
    with pytest.raises((InconsistentDefinitionError, ValidationError), match=re.escape(told)):
        define(change)
