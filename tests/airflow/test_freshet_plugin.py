"""The plugin is loaded by every process of Airflow: it must be sound, and cheap."""

import json
import subprocess
import sys
from pathlib import Path

LOAD = """
import json, pathlib, sys
from airflow import plugins_manager
views, _ = plugins_manager._get_ui_plugins()
told = {"destinations": sorted(view["destination"] for view in views)}
heavy = ("freshet_airflow.freshness_page", "pyspark", "great_expectations")
told["too_early"] = [name for name in heavy if name in sys.modules]
told["mounts"] = [app["url_prefix"] for app in plugins_manager.get_fastapi_plugins()[0]]
told["errors"] = plugins_manager._get_plugins()[1]
pathlib.Path(sys.argv[1]).write_text(json.dumps(told))
"""


def test_the_page_is_loaded_only_by_who_serves_it(tmp_path: Path) -> None:
    report = tmp_path / "told.json"
    subprocess.run([sys.executable, "-c", LOAD, report], check=True)
    assert json.loads(report.read_text()) == {
        "destinations": ["dag", "nav"],
        "too_early": [],
        "mounts": ["/freshet"],
        "errors": {},
    }
