"""Assets that stand for what happens in the warehouse; each is watched by a trigger in Airflow's triggerer.

A DAG that has one of them as its schedule runs when it changes. The events may be merged or come late: what there is
to do stands in the warehouse, they only tell that it is time to look. `fact_table` is meant for DAGs of your own.
"""

from __future__ import annotations

from airflow.sdk import Asset, AssetWatcher

from freshet_airflow.backlog_trigger import BacklogTrigger
from freshet_airflow.facts_loaded_trigger import FactsLoadedTrigger
from freshet_airflow.freshness_trigger import FreshnessTrigger
from freshet_airflow.new_facts_trigger import NewFactsTrigger
from freshet_airflow.warehouse_trigger import WarehouseTrigger


def fact_table(pipeline: str) -> Asset:
    """The fact table of a pipeline: changes when facts were loaded, once a minute at most."""
    return _watched("fact_table", pipeline, NewFactsTrigger(pipeline=pipeline))


def facts_loaded(pipeline: str) -> Asset:
    """Facts that no validation has looked at: changes when it is time to validate them."""
    return _watched("facts", pipeline, FactsLoadedTrigger(pipeline=pipeline))


def backlog(pipeline: str) -> Asset:
    """Shed and unmatched tuples: changes when some are due to be reprocessed, and the stream has time to spare."""
    return _watched("backlog", pipeline, BacklogTrigger(pipeline=pipeline))


def freshness_alert(pipeline: str) -> Asset:
    """The freshness target: changes when it has been missed for longer than its grace, and when it is kept again."""
    return _watched("freshness", pipeline, FreshnessTrigger(pipeline=pipeline))


def _watched(kind: str, pipeline: str, trigger: WarehouseTrigger) -> Asset:
    return Asset(
        name=f"freshet_{kind}__{pipeline}",
        uri=f"freshet://warehouse/{pipeline}/{kind}",
        group="freshet",
        watchers=[AssetWatcher(name=f"freshet_{kind}__{pipeline}", trigger=trigger)],
    )
