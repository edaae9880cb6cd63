"""Commands that make master data and events."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spark_jobs.cli.options import DEFAULT_RATE, DEFAULT_SCALE, Duration, Rate, Scale, duration_option
from spark_jobs.cli.terminal import console
from spark_jobs.durations import parse_duration
from spark_jobs.settings import home

if TYPE_CHECKING:
    from spark_jobs.workload.order_events import Written
    from spark_jobs.workload.rates import Phase

Workload = Annotated[
    Literal["orders", "fulfilment", "auction_bids"],
    typer.Argument(
        help="orders: TPC-H orders and their lines; fulfilment: and their payments and shipments; auction_bids: "
        "Nexmark's persons, auctions and bids.",
    ),
]
Bursty = Annotated[bool, typer.Option("--bursty/--steady", help="Arrivals in self-similar bursts, or evenly.")]
Zipf = Annotated[
    float, typer.Option(help="Skew of customers, parts and suppliers: Zipf exponent; 0 keeps TPC-H's own keys.")
]
Seed = Annotated[int, typer.Option("--seed", help="Equal seeds give equal events, but for their times.")]
Phases = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DURATION=RATE",
        help="From this time on another rate, such as 60s=3000; may be given several times.",
    ),
]
Most = Annotated[int | None, typer.Option(help="End after this number of orders, or of Nexmark's events.")]
BadShare = Annotated[
    float,
    typer.Option(help="Share of bad input to mix in: malformed, overflowing, null, duplicate, unknown keys..."),
]
Tick = Annotated[
    timedelta | None,
    typer.Option(
        parser=duration_option,
        metavar="DURATION",
        show_default="500ms, or 20ms with --kafka",
        help="Time from one file to the next.",
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        help="Brokers to whose topics orders and order_lines these are written, record by record, not as files.",
    ),
]
Past = Annotated[
    bool,
    typer.Option(
        "--past",
        help="Write at once what --orders or --for would have brought by now; for the first run of a home, since "
        "events of a second one would be as old as those of the first.",
    ),
]
Late = Annotated[
    timedelta,
    typer.Option(
        parser=duration_option,
        metavar="DURATION",
        show_default="2s",
        help="Events of fulfilment and auction_bids land up to this much after they happened.",
    ),
]
LateShare = Annotated[float, typer.Option(help="Share of them that land ten minutes later.")]
ScaleOfOrders = Annotated[
    float | None, typer.Option(help="TPC-H scale to take orders from; needed only if several were generated.")
]


def seed(*, scale: Scale = DEFAULT_SCALE) -> None:
    """Generate TPC-H data and load its master data: customers, parts, suppliers."""
    from spark_jobs.control.migration import migrate as run_migrations
    from spark_jobs.local.terminal_progress import progress_bars
    from spark_jobs.local.warehouse_server import warehouse
    from spark_jobs.workload.tpch import seed as run_seed
    from spark_jobs.workload.tpch_files import check_scale

    check_scale(scale)
    with warehouse(home()) as url:
        run_migrations(url)
        with progress_bars(console) as progress:
            run_seed(url, home(), scale, progress)
    console.print(f"The warehouse holds the master data of TPC-H, scale {scale:g}.")


def _phase(text: str) -> Phase:
    from spark_jobs.workload.rates import Phase

    start, _, rate = text.partition("=")
    try:
        return Phase(parse_duration(start), float(rate))
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no phase. Write from when on, and orders per second: 60s=3000"
        ) from error


def generate(
    workload: Workload = "orders",
    *,
    rate: Rate = DEFAULT_RATE,
    bursty: Bursty = True,
    zipf: Zipf = 1.0,
    seed_: Seed = 1,
    phase: Phases = None,
    duration: Duration = None,
    orders: Most = None,
    bad_share: BadShare = 0.0,
    tick: Tick = None,
    kafka: Brokers = None,
    past: Past = False,
    disorder: Late = timedelta(seconds=2),
    late_share: LateShare = 0.001,
    scale: ScaleOfOrders = None,
) -> None:
    """Let events land, in real time, until Ctrl-C: TPC-H orders with all that belongs to them, or Nexmark's auctions.

    The events lie in folders of FRESHET_HOME/landing. A second run goes on with new ones. While orders are written, a
    number of orders per second in FRESHET_HOME/workload-rate steers it.
    """
    from spark_jobs.workload.auction_stream import AuctionStreamOptions, write_auction_stream
    from spark_jobs.workload.order_stream import OrderStreamOptions, write_order_stream
    from spark_jobs.workload.stop_signal import StopSignal
    from spark_jobs.workload.transit import Disorder

    pace: dict[str, Any] = {
        "rate": rate,
        "phases": [_phase(text) for text in phase or []],
        "bursty": bursty,
        "seed": seed_,
        "duration": duration,
        "tick": tick or timedelta(milliseconds=500 if kafka is None else 20),
        "past": past,
    }
    out_of_order = Disorder(disorder, late_share)
    with StopSignal() as stop, console.status("Getting ready ...") as line:

        def show(written: dict[str, Written]) -> None:
            line.update(", ".join(f"{name}: {part.events:,}" for name, part in written.items()))

        if workload == "auction_bids":
            auctions = AuctionStreamOptions(**pace, events=orders, disorder=out_of_order)
            totals = write_auction_stream(home(), auctions, stop, show)
        else:
            parts = out_of_order if workload == "fulfilment" else None
            options = OrderStreamOptions(
                **pace,
                zipf=zipf,
                orders=orders,
                bad_share=bad_share,
                scale=scale,
                fulfilment=parts,
                servers=kafka,
            )
            totals = write_order_stream(home(), options, stop, show)
    _report(totals)


def _report(totals: dict[str, Written]) -> None:
    for name, written in totals.items():
        console.print(f"{name}: {written.events:,} events written", highlight=False)
        for defect, count in sorted(written.bad.items()):
            if count:
                console.print(f"  {defect}: {count:,}", highlight=False)
