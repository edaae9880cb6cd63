"""What is printed of a reproduced figure: one line for each published claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_jobs.benchmarks.papers.figure import Claim, Outcome, Reproduction


def lines_of(reproduction: Reproduction) -> Iterator[str]:
    """For each claim: published, predicted, measured, and whether who beats whom came out as published."""
    for claim, outcome in reproduction.outcomes:
        predicted = f"predicted {outcome.predicted}, " if outcome.predicted else ""
        yield (
            f"{reproduction.figure.id}  {claim.text}: published {claim.published}, {predicted}"
            f"measured {outcome.measured}; {verdict(claim, outcome)}"
        )


def verdict_in_short(outcome: Outcome) -> str:
    """Whether order and number came out as published."""
    if not outcome.as_published:
        return "NOT as published"
    return "order as published, number not reached" if outcome.reached is False else "as published"


def verdict(claim: Claim, outcome: Outcome) -> str:
    """The same, and why not."""
    told = verdict_in_short(outcome)
    return f"{told}: {claim.cause}" if claim.cause and told != "as published" else told


def gallery(reproductions: Sequence[Reproduction]) -> str:
    """All figures with their claims, as Markdown that stands beside the pictures."""
    first = reproductions[0]
    parts = [
        f"# The figures, measured again\n\nDisk {first.disk}, scale {first.scale}. "
        "Made by `freshet bench papers`; the points are in the CSV files."
    ]
    parts += [
        f"## {figure.id}: {figure.title}\n\n![{figure.id}]({figure.id}.png)\n\n{_table(made)}"
        for made in reproductions
        for figure in (made.figure,)
    ]
    return "\n\n".join(parts) + "\n"


def _table(reproduction: Reproduction) -> str:
    rows = ["| the paper | published | predicted | measured | as published |", "|---|---|---|---|---|"]
    for claim, outcome in reproduction.outcomes:
        cells = (claim.text, claim.published, outcome.predicted or "-", outcome.measured, verdict(claim, outcome))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
