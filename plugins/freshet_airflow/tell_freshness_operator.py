"""The operators of the alert DAG: find the alerts that are due, and send them over one channel."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from airflow.sdk import BaseOperator, Context

from freshet_airflow import warehouse_connection
from freshet_airflow.alert_channels import Channel
from freshet_airflow.freshness_alert import Alert
from freshet_airflow.freshness_notifier import FreshnessNotifier


class FreshnessNewsOperator(BaseOperator):
    """Takes on all news of freshness episodes that has not been sent yet; its result is the list of alerts.

    What it has taken on is not taken on by another run. Tried again after a crash, or with its
    whole run cleared, it gets the same news, as far as they are still true.
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """The alerts, as plain values."""
        from airflow.configuration import conf

        from spark_jobs.control.freshness_episodes import claim_news
        from spark_jobs.ledger.status.pipeline_status import read_status

        url = warehouse_connection.warehouse_url(warehouse_connection.DEFAULT_CONNECTION_ID)
        with closing(warehouse_connection.session(url, f"freshet {self.task_id}")) as connection:
            # Not its start_date: a run that is cleared gets a new one, and would not find its own news again.
            news = claim_news(connection, context["dag_run"].run_after)
            statuses = {status.name: status for status in read_status(connection)}
        base_url = conf.get("api", "base_url", fallback="")
        self.log.info("%d alerts to tell.", len(news))
        return [Alert.of(what, episode, statuses[episode.pipeline], base_url).to_dict() for what, episode in news]


class TellFreshnessOperator(BaseOperator):
    """Sends one alert over one channel; skipped where the channel is not set up.

    Args:
        channel: log, email or webhook.
        alert: as `FreshnessNewsOperator` gives it.
    """

    def __init__(self, *, channel: Channel, alert: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.channel = channel
        self.alert = alert

    def execute(self, context: Context) -> None:
        """Tell it."""
        FreshnessNotifier(self.channel, self.alert).notify(context)
