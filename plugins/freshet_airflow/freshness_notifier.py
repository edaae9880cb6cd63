"""The notification hook of freshness alerts."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseNotifier, Context

from freshet_airflow.alert_channels import CHANNELS, Channel
from freshet_airflow.freshness_alert import Alert


class FreshnessNotifier(BaseNotifier):
    """Sends an alert over one channel.

    Args:
        channel: log, email or webhook.
        alert: the fields of an `Alert`.
    """

    def __init__(self, channel: Channel, alert: dict[str, Any]) -> None:
        super().__init__()
        self.channel = channel
        self.alert = alert

    def notify(self, context: Context) -> None:
        """Tell it; raises what the channel raises, so that a task that calls this is tried again."""
        CHANNELS[self.channel](Alert(**self.alert))
