"""What is printed of a reproduced figure: one line for each published claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_jobs.experiments.papers.figure import Claim, Origin, Outcome, Reproduction


def lines_of(reproduction: Reproduction) -> Iterator[str]:
    """For each claim: published, predicted, measured, and whether that is as published."""
    for claim, outcome in reproduction.outcomes:
        yield f"{reproduction.figure.id}  {claim.text}: {numbers_of(claim, outcome)}; {verdict(claim, outcome)}"


def numbers_of(claim: Claim, outcome: Outcome) -> str:
    """What was published, if it was, predicted, if there is a model, and measured."""
    told = [] if claim.origin is Origin.OURS else [f"published {claim.published}"]
    if outcome.predicted:
        told.append(f"predicted {outcome.predicted}")
    return ", ".join([*told, f"measured {outcome.measured}"])


def verdict_in_short(claim: Claim, outcome: Outcome) -> str:
    """Whether a published number is reached, or the order at least; of a statement of ours, whether it holds."""
    if claim.origin is Origin.OURS:
        return "holds" if outcome.as_published else "does NOT hold"
    if not outcome.as_published:
        return "NOT as published"
    if outcome.reached is None:
        return "as published"
    return "reached" if outcome.reached else "order as published, number NOT reached"


def verdict(claim: Claim, outcome: Outcome) -> str:
    """The same, and why not: the cause with the test that shows it, or that it is not known."""
    told = verdict_in_short(claim, outcome)
    if claim.origin is Origin.OURS or (outcome.as_published and outcome.reached is not False):
        return told
    # A cause why a number is not reached does not explain that even the order is another.
    explained = outcome.as_published or claim.contradicted
    if claim.cause is None or not explained:
        return f"{told}; cause unknown"
    return f"{told}; {claim.cause.text}; shown by {claim.cause.test}"


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
    rows = ["| claim | published | predicted | measured | outcome |", "|---|---|---|---|---|"]
    for claim, outcome in reproduction.outcomes:
        text = f"(ours) {claim.text}" if claim.origin is Origin.OURS else claim.text
        cells = (text, claim.published, outcome.predicted or "-", outcome.measured, verdict(claim, outcome))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
