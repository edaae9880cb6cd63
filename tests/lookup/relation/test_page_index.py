"""The page index without a database: where keys belong, and how pages are dealt out."""

import bisect
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.columns.keys.key_columns import KeyColumns
from spark_jobs.columns.keys.values import KeyKind
from spark_jobs.lookup.relation.page_index import PageIndex, PageRanges

unhurried = settings(deadline=None)  # the first call of a kernel compiles it
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)


def index_of(fences: list, kind: KeyKind) -> PageIndex:
    return PageIndex(KeyColumns.encode([pa.array(fences, pa.string() if kind is KeyKind.TEXT else None)], [kind]), 10)


@unhurried
@given(st.lists(st.integers(-50, 50), min_size=1, unique=True), st.lists(st.integers(-60, 60)))
def test_an_integer_key_is_on_the_page_of_the_last_fence_that_is_not_above_it(
    fences: list[int], keys: list[int]
) -> None:
    fences.sort()
    pages = index_of(fences, KeyKind.INTEGER).page_of(
        KeyColumns.encode([pa.array(keys, pa.int64())], [KeyKind.INTEGER])
    )
    assert pages.tolist() == [bisect.bisect_right(fences, key) for key in keys]
    assert pages.dtype == np.int64


@unhurried
@given(st.lists(texts, unique=True), st.lists(texts))
def test_a_text_key_is_on_the_page_that_the_order_of_its_bytes_gives(fences: list[str], keys: list[str]) -> None:
    fences.sort(key=str.encode)
    pages = index_of(fences, KeyKind.TEXT).page_of(KeyColumns.encode([pa.array(keys, pa.string())], [KeyKind.TEXT]))
    assert pages.tolist() == [bisect.bisect_right([fence.encode() for fence in fences], key.encode()) for key in keys]


def test_an_index_pickles_with_its_arrays_out_of_band() -> None:
    index = index_of([f"{n:09}" for n in range(50_000)], KeyKind.TEXT)
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(index, protocol=5, buffer_callback=buffers.append)
    assert len(head) < 2_000
    again = pickle.loads(head, buffers=[bytes(buffer) for buffer in buffers])
    assert again.page_of(again.fences).tolist() == list(range(1, 50_001))
    assert again.page_rows == 10


@unhurried
@given(st.integers(1, 400), st.integers(1, 20))
def test_ranges_differ_by_one_page_at_most(pages: int, parts: int) -> None:
    ranges = (
        index_of(list(range(pages - 1)), KeyKind.INTEGER).ranges(parts) if pages > 1 else PageRanges.balanced(1, parts)
    )
    sizes = np.diff(ranges.boundaries)
    assert ranges.boundaries[0] == 0
    assert ranges.boundaries[-1] == pages
    assert len(sizes) == parts
    assert sizes.max() - sizes.min() <= 1
    owners = ranges.owner_of(np.arange(pages))
    assert owners.dtype == np.int32
    assert (np.bincount(owners, minlength=parts) == sizes).all()
    assert (np.diff(owners) >= 0).all()


@unhurried
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.integers(1, 8))
def test_weighted_ranges_are_off_their_share_by_one_page_at_most(weights: list[int], parts: int) -> None:
    pages = np.array(weights, np.float64)
    ranges = PageRanges.balanced(len(pages), parts, pages)
    owners = ranges.owner_of(np.arange(len(pages)))
    assert (np.diff(ranges.boundaries) >= 0).all()
    assert ranges.boundaries[[0, -1]].tolist() == [0, len(pages)]
    loads = np.bincount(owners, pages, parts)
    assert loads.sum() == pytest.approx(pages.sum())
    if pages.sum():
        assert loads.max() <= pages.sum() / parts + pages.max() * 1.000001


def test_a_heavy_page_gets_a_range_to_itself() -> None:
    weights = np.array([1.0, 1, 1, 97, 1, 1, 1, 1])
    assert PageRanges.balanced(8, 3, weights).owner_of(np.arange(8)).tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
