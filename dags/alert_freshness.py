"""DAG alert_freshness: reports when a pipeline misses its freshness target, and when it keeps it again."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetAny
from freshet_airflow.assets import freshness_alert
from freshet_airflow.pipelines import pipeline_names
from freshet_airflow.tell_freshness_operator import FreshnessNewsOperator, TellFreshnessOperator

DOCUMENTATION = """
Reports, once each, that a pipeline has missed its freshness target for longer than `freshness.grace` of its file, and
that it keeps it again. Each channel is a task of its own, tried again by itself; a channel that fails loses no other.

| channel | is used if |
|---|---|
| log | always: the task's log |
| email | there is a connection `freshet_alert_email`: type smtp, with `{"to": "...", "from_email": "..."}` as extra |
| webhook | there is a connection `freshet_alert_webhook`: type http, with the path as `{"endpoint": "..."}` in extra |

What was told stands in `freshet.freshness_episode`. While this DAG is paused, news wait.
"""

assets = [freshness_alert(pipeline) for pipeline in pipeline_names()]

with DAG(
    dag_id="alert_freshness",
    description="Reports when a pipeline misses its freshness target, and when it keeps it again.",
    doc_md=DOCUMENTATION,
    schedule=AssetAny(*assets) if assets else None,
    is_paused_upon_creation=False,
    # A channel that is tried again for long must not keep other news waiting.
    max_active_runs=16,
    tags=["freshet", "alerts"],
    default_args={
        "retries": 6,
        "retry_delay": timedelta(seconds=20),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": timedelta(minutes=10),
    },
):
    news = FreshnessNewsOperator(task_id="news")
    for channel in ("log", "email", "webhook"):
        TellFreshnessOperator.partial(task_id=channel, channel=channel).expand(alert=news.output)
