// What is held and waits for a person, or for a DAG.

import { dagLink, runButton } from "../actions/run_buttons.js";
import { element } from "../dom/element.js";
import { countIn } from "../health.js";
import { MEANINGS, REQUEUED, SHOWN } from "../held/places.js";
import { age, ago, count, since } from "../numbers.js";
import { panel, workBadge } from "./parts.js";

export function backlogs(status, dags) {
  const waiting = status.backlog ?? {};
  return panel("backlogs", "Backlogs",
    element("table", {},
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Held"),
        element("th.number", { scope: "col" }, "Tuples"), element("th.number", { scope: "col" }, "Oldest"))),
      element("tbody", {}, SHOWN.filter((place) => place !== REQUEUED || status.requeued).map((place) => element("tr", {},
        element("th", { scope: "row", title: MEANINGS[place] }, element(`span.swatch.place-${place}`, { "aria-hidden": "true" }), place),
        element(`td.number${countIn(status, place) ? ".waiting" : ""}`, {}, count(countIn(status, place))),
        element("td.number", {}, age(waiting[place]?.oldest_age_ms)))))),
    element("div.buttons", {},
      runButton("Reprocess now", dags?.reprocess_shed, {
        forbidden: waiting.shed?.count || waiting.unmatched?.count ? null : "Nothing is shed, requeued or unmatched.",
      }),
      dagLink(dags?.reprocess_shed, "with a form")),
    reprocessing(status.reprocessing));
}

function reprocessing(run) {
  if (!run) return element("p.quiet", {}, "Never reprocessed.");
  const done = run.due ? `${count(run.taken)} of ${count(run.due)} tuples` : "nothing was due";
  return element("div.last", {},
    element("p", {}, "Last reprocessing ", workBadge(run.state), ` ${ago(since(run.closed_at ?? run.started_at))}: ${done}`),
    run.due ? element("progress", { max: run.due, value: run.taken, "aria-label": "Progress of reprocessing" }) : null,
    run.taken ? element("p.quiet", {}, `${count(run.facts)} became facts, by ${run.algorithm ?? "an unknown algorithm"}.`) : null,
    run.error ? element("p.late", {}, run.error) : null);
}
