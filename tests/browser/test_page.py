"""The page in Airflow's UI, as an operator sees it."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Frame, FrameLocator, Page, expect
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.control import drivers, host_processes
from spark_jobs.local.airflow_process import EmbeddedAirflow
from spark_jobs.reprocessing.held_tuples import HeldFilter, forget
from spark_jobs.reprocessing.requeue import requeue
from spark_jobs.settings import Home
from tests.browser.conftest import LogIn
from tests.browser.page_warehouse import PageWarehouse
from tests.browser.test_login import session
from tests.waiting import wait_for

ROUTE = "/plugin/warehouse-freshness"


def opened(page: Page, address: str = ROUTE) -> FrameLocator:
    """The page, inside Airflow's own."""
    page.goto(address)
    return page.frame_locator("iframe[title='Freshness']")


def frame_of(page: Page) -> Frame:
    """The same, to run scripts in."""
    return wait_for(
        lambda: next((frame for frame in page.frames if urlsplit(frame.url).path == "/freshet/"), None), "the frame"
    )


def line_of(freshness: FrameLocator, pipeline: str):
    """The pipeline's line in the overview."""
    return freshness.locator(f"tr[data-key='{pipeline}']")


def test_it_opens_from_the_menu(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders")
    page = log_in()
    page.goto("/")
    page.get_by_role("link", name="Freshness", exact=True).click()
    freshness = page.frame_locator("iframe[title='Freshness']")
    expect(freshness.get_by_role("heading", name="Warehouse freshness")).to_be_visible()
    expect(line_of(freshness, "orders")).to_contain_text("stopped")
    expect(freshness.locator("#liveness")).to_have_text("live")


def test_its_numbers_are_those_of_the_status_command(
    log_in: LogIn, warehouse: PageWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESHET_WAREHOUSE_URL", warehouse.url)
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=12_345, shed=30, unmatched=5, rejected=2)
        (told,) = json.loads(CliRunner().invoke(app, ["status", "--json"]).stdout)
        freshness = opened(log_in(), f"{ROUTE}#orders")
        balance = freshness.locator("section.balance")
        for name, key in {"Arrived": "arrived", "Facts": "loaded", "Shed": "shed", "Unmatched": "unmatched"}.items():
            expect(balance.locator("tr", has_text=name)).to_contain_text(f"{told[key]:,}")
        expect(balance).to_contain_text("What was read and what is stored add up")
        expect(line_of(freshness, "orders")).to_contain_text(f"{told['hit_ratio'] * 100:.0f} %")
        expect(freshness.locator("section.lookups")).to_contain_text(told["lookups"][0]["algorithm"])
        expect(freshness.locator("section.driver dd").first).to_have_text(str(told["epoch"]))
        expect(freshness.locator("section.backlogs tr", has_text="rejected")).to_contain_text("2")


def test_a_place_that_holds_less_than_nothing_is_told(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders")
    warehouse.prune_uncounted("orders", 3)
    freshness = opened(log_in(), f"{ROUTE}#orders")
    expect(freshness.locator("section.balance tr", has_text="Shed")).to_contain_text("-3")
    expect(freshness.locator("section.balance")).to_contain_text("the ledger is damaged")
    expect(line_of(freshness, "orders")).to_contain_text("the ledger is damaged")


def test_a_start_that_no_driver_follows_is_told_and_may_be_repeated(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders", "idle")
    warehouse.start_in_vain("orders", timedelta())
    freshness = opened(log_in(), f"{ROUTE}#orders")
    expect(line_of(freshness, "orders")).to_contain_text("starting")
    expect(freshness.get_by_role("button", name="Start", exact=True)).to_be_enabled()
    warehouse.start_in_vain("orders", timedelta(minutes=6))
    expect(line_of(freshness, "orders")).to_contain_text("it was started, but no driver has come up")
    expect(freshness.locator("tbody tr").first).to_contain_text("orders")
    expect(freshness.get_by_role("button", name="Drain")).to_be_disabled()


def test_a_stream_that_can_not_go_on_is_told_with_its_reason(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("idle")
    with warehouse.running_orders() as stream:
        drivers.block(stream.connection, "orders", stream.epoch, "no partition of fact_order for May")
        freshness = opened(log_in(), f"{ROUTE}#orders")
        expect(freshness.locator("tbody tr").first).to_contain_text("blocked: no partition of fact_order for May")
        expect(freshness.locator("article .banner")).to_contain_text("Blocked for")
        expect(freshness.get_by_role("button", name="Drain")).to_be_enabled()
        drivers.unblock(stream.connection, "orders", stream.epoch)
        expect(line_of(freshness, "orders")).to_contain_text("running")
        drivers.note_end(stream.connection, "orders", stream.epoch, host_processes.GONE, drivers.Restart(2, 5))
        expect(line_of(freshness, "orders")).to_contain_text("restarting")
        expect(line_of(freshness, "orders")).to_contain_text(f"try 2 of 5: {host_processes.GONE}")


def test_a_stream_that_rejects_what_it_reads_comes_first_with_the_commonest_reason(
    log_in: LogIn, warehouse: PageWarehouse
) -> None:
    warehouse.register("idle")
    freshness = opened(log_in(), ROUTE)
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=10, rejected=3)
        expect(line_of(freshness, "orders")).to_contain_text("orders")
        expect(line_of(freshness, "orders")).not_to_contain_text("rejecting")
        warehouse.refuse(stream, "malformed: price: 1.234\u202e is no decimal(10,2)", 30)
        warehouse.look(stream)
        first = freshness.locator("tbody tr").first
        expect(first).to_contain_text("rejecting")
        expect(first).to_contain_text(r"most often: malformed: price: 1.234\u202e is no decimal(10,2)")


def test_what_was_requeued_does_not_look_like_overload(log_in: LogIn, warehouse: PageWarehouse) -> None:
    freshness = opened(log_in(), f"{ROUTE}#orders")
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=10, shed=3)
        warehouse.refuse(stream, "no partition for May", 30)
        requeue(stream.connection, "orders", "no partition")
        warehouse.look(stream)
        balance = freshness.locator("section.balance")
        expect(balance.locator("tr", has_text="Requeued")).to_contain_text("30")
        expect(balance.locator("tr", has_text="Put off under overload")).to_contain_text("3")
        expect(balance.locator("tr", has_text="Bad input")).to_contain_text("0")
        expect(freshness.locator("section.backlogs tr", has_text="requeued")).to_contain_text("30")
        expect(line_of(freshness, "orders")).not_to_contain_text("rejecting")


def test_a_stream_that_does_not_load_does_not_look_fresh(log_in: LogIn, warehouse: PageWarehouse) -> None:
    with warehouse.running_orders() as stream:
        warehouse.look(stream)
        freshness = opened(log_in(), f"{ROUTE}#orders")
        line, detail = line_of(freshness, "orders"), freshness.locator("section.freshness")
        expect(line.locator(".badge").first).to_have_text("idle")
        expect(line.locator(".lag")).to_have_text("none")
        warehouse.load(stream, facts=100)
        expect(line.locator(".badge").first).to_have_text("running")
        warehouse.look(stream, files=9, waited=46)
        expect(line.locator(".badge").first).to_have_text("late")
        expect(line.locator(".lag")).to_contain_text(re.compile(r"9 files.*[4-9]\d s"))
        expect(line.locator(".p99")).to_have_class(re.compile("late"))
        expect(detail).to_contain_text("9 files (8.79 KB), the oldest for")
        warehouse.look(stream)
        warehouse.kill(silent=timedelta(seconds=25))
        expect(line.locator(".badge").first).to_have_text("down")
        expect(line.locator(".lag")).to_have_text("unknown")
        expect(line.locator(".p99")).to_have_text("\N{EN DASH}")
        expect(detail).to_contain_text("more may have landed since")


def test_facts_that_are_older_than_a_day_are_not_told_as_if_that_were_exact(
    log_in: LogIn, warehouse: PageWarehouse
) -> None:
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=5, age=timedelta(days=3))
        freshness = opened(log_in())
        expect(line_of(freshness, "orders").locator(".p99")).to_have_text("over 24 h")


def test_nothing_is_cut_off_or_scrolls_sideways_on_a_narrow_screen(log_in: LogIn, warehouse: PageWarehouse) -> None:
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=12_345, shed=30_000, unmatched=5, rejected=2)
        warehouse.look(stream, files=1200, waited=4000)
        page = log_in(viewport={"width": 1024, "height": 768})
        for address in (ROUTE, f"{ROUTE}#orders"):
            freshness = opened(page, address)
            expect(line_of(freshness, "orders")).to_be_visible()
            if address != ROUTE:
                freshness.get_by_text("Look into them").click()
                expect(freshness.locator(".held-groups tbody tr")).to_have_count(3)
            assert cut_off(page) == []


def cut_off(page: Page) -> list[str]:
    """Classes of what is wider than its place."""
    found: list[str] = frame_of(page).evaluate(
        """[...document.querySelectorAll('html, .table-room, .panel')]
            .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.className)"""
    )
    return found


def test_a_running_stream_is_shown_live_without_losing_focus(log_in: LogIn, warehouse: PageWarehouse) -> None:
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=100)
        freshness = opened(log_in(), f"{ROUTE}#orders")
        summary = freshness.get_by_role("button", name="1 h")
        summary.focus()
        facts = freshness.locator("section.balance tr", has_text="Facts")
        expect(facts).to_contain_text("100")
        warehouse.load(stream, facts=50)
        expect(facts).to_contain_text("150")
        expect(summary).to_be_focused()


def test_of_several_streams_no_sum_is_shown_that_is_none(log_in: LogIn, warehouse: PageWarehouse) -> None:
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=40, rejected=3)
        warehouse.join(orders=70, payments=20)
        freshness = opened(log_in(), f"{ROUTE}#orders")
        balance = freshness.locator("section.balance")
        expect(balance.locator("tr", has_text="Events that wait")).to_contain_text("90")
        expect(balance.locator("tr", has_text="Facts")).to_contain_text("40")
        expect(balance).to_contain_text("No event of a stream is missing, by the ledger")
        expect(balance.locator("tbody")).not_to_contain_text("%")


def test_charts_take_a_changed_target_over(log_in: LogIn, warehouse: PageWarehouse) -> None:
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=500)
        freshness = opened(log_in())
        at_a_glance = freshness.locator("#glance .u-series", has_text="target")
        expect(at_a_glance).to_contain_text("5 s")
        warehouse.retarget("orders", timedelta(seconds=7))
        expect(at_a_glance).to_contain_text("7 s")
        freshness.get_by_role("link", name="orders").click()
        in_detail = freshness.locator(".freshness-chart .u-series", has_text="target")
        expect(in_detail).to_contain_text("7 s")
        warehouse.retarget("orders", timedelta(seconds=9))
        expect(in_detail).to_contain_text("9 s")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_are_drawn_in_the_theme_of_airflow(log_in: LogIn, warehouse: PageWarehouse, theme: str) -> None:
    with warehouse.running_orders() as stream:
        for _ in range(4):
            warehouse.load(stream, facts=500, shed=200)
            warehouse.make_older(timedelta(minutes=1))
        page = log_in(color_scheme="light")
        page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        freshness = opened(page, f"{ROUTE}#orders")
        expect(freshness.locator(".chart canvas")).to_have_count(2)
        assert frame_of(page).evaluate("document.documentElement.dataset.theme") == theme
        drawn = {"arriving": ".rates", "loaded": ".rates", "p99": ".freshness-chart", "target": ".freshness-chart"}
        for series, chart in drawn.items():
            wait_for(lambda chart=chart, series=series: pixels(page, chart, series) > 20, f"{series} to be drawn", 15)


def test_few_pipelines_are_charted_at_a_glance(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("visits")
    with warehouse.running_orders() as stream:
        warehouse.load(stream, facts=500)
        freshness = opened(log_in())
        expect(freshness.locator("#glance canvas")).to_have_count(2)
        freshness.get_by_role("link", name="visits").click()
        expect(freshness.locator("#glance canvas")).to_have_count(0)
        expect(freshness.locator("#charts canvas")).to_have_count(2)


def pixels(page: Page, chart: str, series: str) -> int:
    """How many of the chart's pixels have the colour of the series."""
    return frame_of(page).evaluate(
        """([chart, series]) => {
            const canvas = document.querySelector(`${chart} canvas`);
            const paint = canvas.getContext("2d");
            const style = getComputedStyle(document.documentElement);
            const hex = style.getPropertyValue(`--${series}`).trim().match(/\\w\\w/g);
            const [red, green, blue] = hex.map((two) => parseInt(two, 16));
            const { data } = paint.getImageData(0, 0, canvas.width, canvas.height);
            let found = 0;
            for (let at = 0; at < data.length; at += 4) {
                const far = Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue);
                if (data[at + 3] > 200 && far < 40) found += 1;
            }
            return found;
        }""",
        [chart, series],
    )


def test_a_button_starts_a_run_of_the_dag(log_in: LogIn, warehouse: PageWarehouse, airflow: EmbeddedAirflow) -> None:
    warehouse.register("orders")
    page = log_in()
    freshness = opened(page, f"{ROUTE}#orders")
    freshness.get_by_role("button", name="Start", exact=True).click()
    expect(freshness.locator(".message")).to_contain_text("Started stream_load__orders")
    with airflow.api() as api:
        (run,) = api.unfinished_runs("stream_load__orders")
        assert run["conf"] == {"action": "start"}
        freshness.get_by_role("link", name="See the run").click()
        page.wait_for_url("**/dags/stream_load__orders/runs/**")
        api.fail_unfinished_runs("stream_load__orders")


def test_a_serious_action_asks_first(log_in: LogIn, warehouse: PageWarehouse, airflow: EmbeddedAirflow) -> None:
    with warehouse.running_orders(), airflow.api() as api:
        freshness = opened(log_in(), f"{ROUTE}#orders")
        freshness.get_by_role("button", name="Drain").click()
        freshness.get_by_role("button", name="Cancel").click()
        assert api.unfinished_runs("stream_load__orders") == []
        freshness.get_by_role("button", name="Drain").click()
        freshness.get_by_role("dialog").get_by_role("button", name="Drain").click()
        expect(freshness.locator(".message")).to_contain_text("Started")
        (run,) = api.unfinished_runs("stream_load__orders")
        assert run["conf"] == {"action": "drain"}
        api.fail_unfinished_runs("stream_load__orders")


def test_a_failed_validation_is_told_and_leads_to_its_data_docs(
    log_in: LogIn, warehouse: PageWarehouse, home: Home
) -> None:
    document = home.data_docs("orders") / "validations" / "first.html"
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text("<h1>What Great Expectations found</h1>")
    warehouse.register("orders")
    freshness = opened(log_in(), f"{ROUTE}#orders")
    badge = freshness.locator("section.validation .badge")
    with warehouse.validating("orders"):
        expect(badge).to_have_text("running")
        expect(badge).not_to_have_class(re.compile("passed|running"))  # it must not look like one that passed
    expect(badge).to_have_text("cut off")
    warehouse.validate("orders", "3 of 1,000 facts: <b>-4</b>, 0, 120", "validations/first.html")
    page = log_in("viewer")
    freshness = opened(page, f"{ROUTE}#orders")
    validation = freshness.locator("section.validation")
    expect(validation.locator(".badge")).to_have_text("failed")
    expect(validation.locator(".failures")).to_contain_text("<b>-4</b>")
    with page.context.expect_page() as opening:
        validation.get_by_role("link", name="Data Docs").click()
    expect(opening.value.locator("h1")).to_have_text("What Great Expectations found")


def test_held_tuples_are_looked_into_and_what_the_filter_shows_is_acted_on(
    log_in: LogIn, warehouse: PageWarehouse, airflow: EmbeddedAirflow
) -> None:
    with warehouse.running_orders() as stream, airflow.api() as api:
        warehouse.load(stream, shed=4, unmatched=2)
        warehouse.refuse(stream, "column amount is <b>n/a</b>, no decimal(15,2)", 3)
        freshness = opened(log_in(), f"{ROUTE}#orders")
        freshness.get_by_text("Look into them").click()
        held = freshness.locator("section.held")
        groups = held.locator(".held-groups tbody tr")
        expect(groups).to_have_count(3)
        expect(held.get_by_role("button", name="Requeue")).to_be_disabled()
        held.get_by_role("button", name="column amount is <b>n/a</b>").click()
        expect(groups).to_have_count(1)
        expect(groups).to_contain_text("3")
        expect(held.get_by_role("button", name="Retry")).to_be_disabled()
        expect(held.locator(".samples > li")).to_have_count(3)
        held.locator(".samples summary").first.click()
        expect(held.locator(".samples pre").first).to_contain_text('"amount":1.00')
        held.get_by_role("button", name="Requeue").click()
        freshness.get_by_role("dialog").get_by_role("button", name="Requeue").click()
        expect(freshness.locator(".message")).to_contain_text("reprocess_shed__orders")
        (run,) = api.unfinished_runs("reprocess_shed__orders")
        # Numbers differ among the reasons of a group: its longest part without any is asked for.
        assert run["conf"] == {"places": ["shed"], "requeue": "column amount is <b>n/a</b>, no decimal("}
        api.fail_unfinished_runs("reprocess_shed__orders")
        expect(freshness.locator(".message.bad")).to_contain_text("reprocess_shed__orders has failed")
        held.get_by_role("button", name="Forget").click()
        expect(freshness.get_by_role("dialog")).to_contain_text("3 tuples of orders (rejected; reason contains")
        freshness.get_by_role("dialog").get_by_role("button", name="Forget").click()
        run = wait_for(lambda: next(iter(api.unfinished_runs("forget_held__orders")), None), "the run")
        assert run["conf"]["places"] == ["rejected"]
        assert set(run["conf"]) == {"places", "reason", "until"}, "up to what was shown"
        api.fail_unfinished_runs("forget_held__orders")


def test_held_tuples_are_shown_to_who_may_read_the_dag_that_retries_them(
    client: httpx.Client, tokens: dict[str, str], warehouse: PageWarehouse
) -> None:
    with warehouse.running_orders() as stream:
        warehouse.load(stream, rejected=2)
        for path in ("held", "log"):
            status = {
                user: client.get(f"/freshet/api/{path}?pipeline=orders", headers=session(tokens, user)).status_code
                for user in ("viewer", "stream_viewer")
            }
            assert status == {"viewer": 200, "stream_viewer": 404 if path == "held" else 200}
        for asked in (
            {"text": "\0"}, {"pipeline": "a\0b"},
            {"since": "9999-12-31T23:59:59-23:59"}, {"since": "0001-01-01T00:00:00+23:59"},
        ):  # fmt: skip
            wrong = {"pipeline": "orders", "place": "rejected"} | asked
            answer = client.get("/freshet/api/held", params=wrong, headers=session(tokens, "viewer"))
            assert answer.status_code == 422, asked


def test_what_happened_is_listed_and_marked_on_the_charts(log_in: LogIn, warehouse: PageWarehouse, home: Home) -> None:
    log = home.driver_log("orders")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("loading <b>orders</b>\nfrom postgresql://etl:secret@host/db\n")
    with warehouse.running_orders() as stream:
        warehouse.log_to(str(log))
        warehouse.load(stream, facts=500, shed=3)
        drivers.note_end(stream.connection, "orders", stream.epoch, "the disk is full", None)
        stream.epoch = drivers.take_over(stream.connection, "orders", log_file=str(log))
        warehouse.redefine("orders", '{"memory": "64MiB"}')
        forget(stream.connection, HeldFilter("orders"), "ada", "manual__1")
        page = log_in()
        freshness = opened(page, f"{ROUTE}#orders")
        happened = freshness.locator("section.happened")
        for words in ("driver ended", "the disk is full", "restarted", "memory", "tuples forgotten", "by ada"):
            expect(happened).to_contain_text(words)
        expect(happened.get_by_role("link", name="run")).to_have_attribute(
            "href", re.compile("forget_held__orders/runs/manual__1")
        )
        for kind in ("restart", "definition changed", "forgotten"):
            expect(freshness.locator(".marks")).to_contain_text(kind)
        wait_for(lambda: pixels(page, ".freshness-chart", "mark-forget") > 20, "the newest mark to be drawn", 15)
        expect(freshness.locator("section.freshness")).to_contain_text("of the last day")
        expect(freshness.locator(".distribution")).to_contain_text("of events500")
        freshness.get_by_text("The end of its log").click()
        expect(freshness.locator("pre.log")).to_have_text("loading <b>orders</b>\nfrom postgresql://etl:***@host/db")


def test_the_freshness_axis_has_round_ticks_however_old_one_event_is(log_in: LogIn, warehouse: PageWarehouse) -> None:
    page = log_in()
    expect(opened(page).locator("#overview")).to_contain_text("No pipeline yet")
    ticks = "import(`${document.baseURI}charts/ticks.js`).then((to) => to.roundTicks(...to.roundRange(%s, %s)))"
    second, minute, hour = 1000, 60_000, 3_600_000
    old = [100, second, 10 * second, minute, 10 * minute, hour, 6 * hour, 24 * hour]
    assert frame_of(page).evaluate(ticks % (180, 86_000_000)) == old
    assert frame_of(page).evaluate(ticks % (900, 5000)) == [500, 1000, 2000, 5000, 10_000]


def test_a_viewer_sees_why_the_buttons_do_nothing(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders")
    freshness = opened(log_in("viewer"), f"{ROUTE}#orders")
    expect(freshness.locator(".note")).to_contain_text("You can look but not act")
    expect(freshness.locator("button[data-key^=run-]").first).to_be_disabled()
    assert freshness.locator("button[data-key^=run-]:not([aria-disabled])").count() == 0


def test_a_dags_page_has_a_tab_of_its_pipeline(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders", "order_lines")
    page = log_in()
    page.goto("/dags/stream_load__orders")
    page.get_by_test_id("main-content").get_by_role("link", name="Freshness", exact=True).click()
    tab = page.frame_locator("iframe[title='Freshness']")
    expect(tab.get_by_role("heading", name="orders", exact=True)).to_be_visible()
    expect(tab.locator("#overview")).to_be_empty()


def test_the_tab_of_another_dag_is_harmless(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders")
    tab = opened(log_in(), "/dags/maintain_warehouse/plugin/pipeline-freshness")
    expect(tab.locator("#detail")).to_contain_text("belongs to no pipeline")


def test_without_pipelines_it_says_what_to_do(log_in: LogIn, warehouse: PageWarehouse) -> None:
    expect(opened(log_in()).locator("#overview")).to_contain_text("No pipeline yet")


def test_fifty_pipelines_can_be_ordered_grouped_and_filtered(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register(*(f"shop_{number:02}" for number in range(49)))
    with warehouse.running_orders():
        freshness = opened(log_in())
        lines = freshness.locator("tbody tr")
        expect(lines).to_have_count(50)
        expect(lines.first).to_contain_text("orders")  # running comes before stopped
        by_name = freshness.get_by_role("button", name="Order by Pipeline")
        for first in ("orders", "shop_48", "orders"):  # from A on, from Z on, worst first
            by_name.click()
            freshness.locator("h1").hover()
            expect(lines.first).to_contain_text(first)
        freshness.get_by_label("Group by state").check()
        expect(freshness.locator(".state-group")).to_have_count(2)
        expect(freshness.locator(".state-group").last).to_contain_text("stopped 49")
        freshness.get_by_label("Group by state").uncheck()
        freshness.get_by_placeholder("Filter pipelines").fill("OP_4")
        expect(lines).to_have_count(9)
        lines.first.get_by_role("link").click()
        expect(freshness.get_by_role("heading", name="shop_40")).to_be_focused()


def test_when_the_warehouse_is_away_the_last_figures_stay_greyed(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders")
    page = log_in()
    freshness = opened(page)
    expect(line_of(freshness, "orders")).to_be_visible()
    with warehouse.away():
        expect(freshness.locator("#banner")).to_contain_text("The warehouse is away")
        expect(freshness.locator("#liveness")).to_contain_text("old")
        expect(freshness.locator("#figures")).to_have_class("outdated")
        expect(line_of(freshness, "orders")).to_be_visible()
    expect(freshness.locator("#liveness")).to_have_text("live")
    expect(freshness.locator("#banner")).to_be_empty()
    assert all("503" in complaint for complaint in page.complaints)  # type: ignore[attr-defined]
    page.complaints.clear()  # type: ignore[attr-defined]


def test_names_and_errors_are_text_whatever_they_hold(log_in: LogIn, warehouse: PageWarehouse) -> None:
    name = "<img src=x onerror=alert(1)>"
    warehouse.register(name)
    page = log_in()
    freshness = opened(page)
    freshness.get_by_role("link", name=name).click()
    expect(freshness.locator("#detail-heading")).to_have_text(name)
    assert freshness.locator("img").count() == 0


def test_an_address_that_was_cut_off_chooses_no_pipeline(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders")
    page = log_in()
    freshness = opened(page)
    expect(line_of(freshness, "orders")).to_be_visible()
    frame_of(page).evaluate("window.location.hash = '#%'")
    warehouse.register("visits")
    expect(line_of(freshness, "visits")).to_be_visible()
    expect(freshness.locator("#detail")).to_be_empty()
    expect(freshness.locator("#banner")).to_be_empty()


def test_the_address_leads_back_to_the_chosen_pipeline(log_in: LogIn, warehouse: PageWarehouse) -> None:
    warehouse.register("orders", "visits")
    page = log_in()
    freshness = opened(page)
    freshness.get_by_role("link", name="visits").click()
    page.wait_for_url("**#visits")
    page.reload()
    expect(freshness.locator("#detail-heading")).to_have_text("visits")
    freshness.locator("#detail-heading").press("Escape")
    expect(freshness.locator("#detail-heading")).to_have_count(0)
