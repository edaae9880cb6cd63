"""Nothing of the page is shown without Airflow's login, and a viewer can't act."""

import json

import httpx
import pytest

from spark_jobs.settings import Home
from tests.browser.page_warehouse import PageWarehouse
from tests.waiting import wait_for

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


def test_who_may_read_the_dags_of_one_pipeline_sees_nothing_of_another(
    client: httpx.Client, tokens: dict[str, str], home: Home, warehouse: PageWarehouse
) -> None:
    """What they may not see is answered as what is not there."""
    warehouse.register("orders", "order_lines")
    for pipeline in ("orders", "order_lines"):
        folder = home.data_docs(pipeline)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text("<h1>Validations</h1>")

    def answer(user: str, path: str) -> httpx.Response:
        return client.get(f"/freshet/{path}", headers=session(tokens, user))

    def names(user: str) -> list[str]:
        return sorted(status["name"] for status in answer(user, "api/status").json()["pipelines"])

    wait_for(lambda: names("viewer") == ["order_lines", "orders"], "figures of the newly filled warehouse")
    assert names("orders_viewer") == ["orders"]
    for path in ("docs/{}/", "docs/{}/index.html", "api/history?pipeline={}&span=15m"):
        for pipeline in ("orders", "order_lines"):
            assert answer("viewer", path.format(pipeline)).status_code == 200
        assert answer("orders_viewer", path.format("orders")).status_code == 200
        other, unknown = (answer("orders_viewer", path.format(name)) for name in ("order_lines", "nobody"))
        assert (other.status_code, other.text) == (unknown.status_code, unknown.text)
        assert other.status_code == 404
    its, others = (
        answer("orders_viewer", f"api/dags?pipeline={name}").json()["dags"] for name in ("orders", "order_lines")
    )
    assert all(dag["exists"] for dag in its.values())
    assert not any(dag["exists"] or dag["may_run"] for dag in others.values())


def test_validations_are_shown_to_who_may_read_their_dag(
    client: httpx.Client, tokens: dict[str, str], warehouse: PageWarehouse
) -> None:
    """A failed one shows facts as examples."""
    warehouse.register("orders")
    warehouse.validate("orders", "quantity -4 of order 7", "index.html")

    def status(user: str) -> str:
        return client.get("/freshet/api/status", headers=session(tokens, user)).text

    wait_for(lambda: "quantity -4" in status("viewer"), "figures with the validation")
    assert "quantity -4" not in status("stream_viewer")
    assert [shown["name"] for shown in json.loads(status("stream_viewer"))["pipelines"]] == ["orders"]
    assert client.get("/freshet/docs/orders/", headers=session(tokens, "stream_viewer")).status_code == 404
