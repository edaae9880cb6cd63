"""Nothing of the page is shown without Airflow's login, and a viewer can't act."""

import httpx
import pytest

from spark_jobs.settings import Home

PATHS = [
    "",
    "index.html",
    "main.js",
    "vendor/uplot/uPlot.esm.js",
    "icons/freshness.svg",
    "api/status",
    "api/history?pipeline=orders&span=15m",
    "api/dags?pipeline=orders",
    "docs/orders/index.html",
    "docs/orders/",
    "no/such/file",
    "openapi.json",
    "redoc",
]


def session(tokens: dict[str, str], user: str) -> dict[str, str]:
    """The cookie that Airflow's login sets."""
    return {"Cookie": f"_token={tokens[user]}"}


@pytest.mark.parametrize("path", PATHS)
def test_who_is_not_logged_in_gets_nothing(client: httpx.Client, path: str) -> None:
    assert client.get(f"/freshet/{path}").status_code == 401
    assert client.get(f"/freshet/{path}", headers={"Cookie": "_token=made-up"}).status_code in (401, 403)


@pytest.mark.parametrize("path", ["", "main.js", "icons/freshness.svg", "api/dags?pipeline=orders"])
def test_a_viewer_may_look(client: httpx.Client, tokens: dict[str, str], path: str) -> None:
    assert client.get(f"/freshet/{path}", headers=session(tokens, "viewer")).status_code == 200


def test_a_viewer_may_not_act(client: httpx.Client, tokens: dict[str, str]) -> None:
    dags = client.get("/freshet/api/dags?pipeline=orders", headers=session(tokens, "viewer")).json()["dags"]
    assert not any(dag["may_run"] for dag in dags.values())
    run = client.post(
        "/api/v2/dags/stream_load__orders/dagRuns",
        json={"logical_date": None, "conf": {"action": "drain"}},
        headers=session(tokens, "viewer"),
    )
    assert run.status_code == 403


def test_the_policy_lets_only_own_scripts_run(client: httpx.Client, tokens: dict[str, str]) -> None:
    for path in ("", "main.js", "style/page.css"):
        headers = client.get(f"/freshet/{path}", headers=session(tokens, "viewer")).headers
        assert "script-src 'self';" in headers["Content-Security-Policy"]
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["..%2fapp.py", "%2e%2e/%2e%2e/warehouse_connection.py", "style%00", "x" * 5000])
def test_no_file_outside_is_served(client: httpx.Client, tokens: dict[str, str], path: str) -> None:
    assert client.get(f"/freshet/{path}", headers=session(tokens, "admin")).status_code == 404


def test_the_browsers_copy_of_a_file_serves_again(client: httpx.Client, tokens: dict[str, str]) -> None:
    headers = session(tokens, "viewer")
    tag = client.get("/freshet/main.js", headers=headers).headers["ETag"]
    assert client.get("/freshet/main.js", headers={**headers, "If-None-Match": tag}).status_code == 304
    assert client.get("/freshet/main.js", headers={"If-None-Match": tag}).status_code == 401


def test_data_docs_are_served_and_run_no_scripts(client: httpx.Client, tokens: dict[str, str], home: Home) -> None:
    folder = home.data_docs("orders")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text("<h1>Validations</h1><script>alert(1)</script>")
    for path in ("docs/orders/", "docs/orders/index.html"):
        answer = client.get(f"/freshet/{path}", headers=session(tokens, "viewer"))
        assert "Validations" in answer.text
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "script-src" not in answer.headers["Content-Security-Policy"]
    for path in ("docs/orders/..%2f..%2fairflow%2fairflow.cfg", "docs/..%2fairflow/airflow.cfg", "docs/nobody/"):
        assert client.get(f"/freshet/{path}", headers=session(tokens, "admin")).status_code == 404
