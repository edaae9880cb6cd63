"""A pipeline whose facts accumulate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loading.accumulation.fulfilment import Accumulating


@pytest.fixture
def fulfilment(clean_warehouse: str) -> Iterator[Accumulating]:
    """Orders with payments and shipments."""
    pipeline = Accumulating(clean_warehouse)
    yield pipeline
    pipeline.close()
