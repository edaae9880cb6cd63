"""The plugin: the page "Freshness" in Airflow's navigation, and a tab of it on each pipeline's DAGs."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

MOUNT = "/freshet"


class FreshetPlugin(AirflowPlugin):
    """What Airflow asks for, in every one of its processes: so nothing here imports the page before it is asked for."""

    name = "freshet"
    # Without a leading slash an address is relative to Airflow's own, which need not be the server's root.
    external_views = [
        {
            "name": "Freshness",
            "href": f"{MOUNT[1:]}/",
            "url_route": "warehouse-freshness",
            "destination": "nav",
            "nav_top_level": True,
            "icon": f"{MOUNT[1:]}/icons/freshness.svg",
        },
        {
            "name": "Freshness",
            "href": f"{MOUNT[1:]}/?dag={{DAG_ID}}",
            "url_route": "pipeline-freshness",
            "destination": "dag",
            "icon": f"{MOUNT[1:]}/icons/freshness.svg",
        },
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The page's web application; only the API server asks for it."""
        from freshet_airflow.freshness_page.app import freshness_page

        return [{"name": "Warehouse freshness", "app": freshness_page(), "url_prefix": MOUNT}]
