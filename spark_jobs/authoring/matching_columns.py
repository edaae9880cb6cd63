"""Guesses by which columns the events of several streams belong together, from samples of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import pyarrow.compute as pc

from spark_jobs.authoring.sample import ID_NAMES, ID_TYPES, LIKELY_ID, MOST_DIGITS, TIME_TYPES, Sample
from spark_jobs.errors import FreshetError

_NAMES_AGREE = 100.0
_BY_CHANCE = 0.001
_IS_AN_ID = 4.0


def matching_columns(samples: Mapping[str, Sample]) -> dict[str, str]:
    """The column of each stream by which events most likely belong together.

    Names that agree count most, as `order_id` in both, or beside `id` of orders; then how many values the samples
    share. Ids that each stream counts for itself share theirs by chance, and times say nothing.

    Args:
        samples: by stream, two or more.

    Returns:
        stream -> column, all of one kind of type; empty where neither names nor values agree.
    """
    first, *others = samples
    best, most = dict[str, str](), 0.0
    for name, kind in samples[first].columns.items():
        if kind.name not in ID_TYPES or kind.name in TIME_TYPES:
            continue
        found, least = {first: name}, math.inf
        for stream in others:
            same_kind = [each for each, other in samples[stream].columns.items() if other.name == kind.name]
            scores = {each: _score(samples, (first, name), (stream, each)) for each in same_kind}
            found[stream] = max(scores, key=lambda each: scores[each], default="")
            least = min(least, scores.get(found[stream], 0.0))
        if least > most:
            best, most = found, least
    return best


def columns_of_one_type(samples: Mapping[str, Sample]) -> dict[str, str]:
    """A column of each stream that could be compared with the others', event ids before all others.

    Raises:
        FreshetError: the streams have no columns of one type.
    """
    by_kind = {
        # The first of a kind counts, which is written last.
        stream: {sample.columns[name].name: name for name in reversed(_ids_first(sample))}
        for stream, sample in samples.items()
    }
    first = next(iter(samples.values()))
    for kind in (first.columns[name].name for name in _ids_first(first)):
        if all(kind in names for names in by_kind.values()):
            return {stream: names[kind] for stream, names in by_kind.items()}
    told = "; ".join(f"{stream}: {sample.told}" for stream, sample in samples.items())
    raise FreshetError(
        "The streams have no columns of one type, by which their events could belong together. Write a column of the "
        f"same values into the events of each, and take other samples. Columns: {told}."
    )


def with_one_type(samples: Mapping[str, Sample], on: Mapping[str, str]) -> dict[str, Sample]:
    """The samples; decimals that are compared have as many digits, before the point and after it, as any of them."""
    kinds = [samples[stream].columns[column] for stream, column in on.items()]
    scale = max(kind.scale for kind in kinds)
    whole = max(kind.precision - kind.scale for kind in kinds)
    kind = replace(kinds[0], precision=min(whole + scale, MOST_DIGITS), scale=scale)
    return {stream: replace(each, columns={**each.columns, on[stream]: kind}) for stream, each in samples.items()}


def _score(samples: Mapping[str, Sample], one: tuple[str, str], other: tuple[str, str]) -> float:
    """How likely two columns, each of a stream, say what belongs together."""
    texts = [samples[stream].values[column].drop_null() for stream, column in (one, other)]
    values = [pc.unique(each) for each in texts]
    shared = float(pc.sum(pc.is_in(values[1], values[0])).as_py() or 0)
    # In one of the streams at least, it tells most events apart: a state or a currency does not.
    weight = max(len(each) / max(len(all_), 1) for each, all_ in zip(values, texts, strict=True))
    weight *= _IS_AN_ID ** sum(bool(LIKELY_ID.fullmatch(column)) for _, column in (one, other))
    names_agree = _plain(one[1]) == _plain(other[1]) not in ID_NAMES
    if names_agree or _refers(samples, one, other) or _refers(samples, other, one):
        return (1 + shared) * weight * _NAMES_AGREE
    if all(samples[stream].event_id == (column,) for stream, column in (one, other)):
        return shared * weight * _BY_CHANCE
    return shared * weight


def _refers(samples: Mapping[str, Sample], referring: tuple[str, str], referred: tuple[str, str]) -> bool:
    """Whether a column is named after another stream and its id: `order`, or `order_id`, for `id` of orders."""
    stream, column = referred
    one = re.sub("ies$", "y", stream.lower()).removesuffix("s")
    name = _plain(referring[1])
    if column in samples[stream].event_id and name == _plain(one):
        return True
    return _plain(column) in ID_NAMES and name == _plain(one + column)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _ids_first(sample: Sample) -> list[str]:
    """The columns that could be compared."""
    names = [name for name, kind in sample.columns.items() if kind.name in ID_TYPES]
    return sorted(names, key=lambda name: (name not in sample.event_id, sample.columns[name].name in TIME_TYPES))
