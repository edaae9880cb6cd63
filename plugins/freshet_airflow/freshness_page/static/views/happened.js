// What has happened to the pipeline, the newest first.

import { element } from "../dom/element.js";
import { airflowAddress } from "../host/airflow.js";
import { age, clock } from "../numbers.js";
import { panel, workBadge } from "./parts.js";

const WORDS = {
  start: "started",
  restart: "restarted",
  end: "driver ended",
  reprocessing: "reprocessing",
  requeue: "requeue",
  forget: "forget",
  validation: "validation",
  alert: "alert",
  rebuild: "rebuild",
  definition: "definition changed",
};
const DAG_OF_KIND = {
  reprocessing: "reprocess_shed", requeue: "reprocess_shed", forget: "forget_held", validation: "validate_facts",
};
const AT_FIRST = 8;

/** @param {object[]|null} events null while they are not known. */
export function happened(status, events) {
  return panel("happened", "What has happened", !events?.length
    ? element("p.quiet", {}, events ? "Nothing is known." : "loading …")
    : [table(status.name, events.slice(0, AT_FIRST)),
      events.length > AT_FIRST
        ? element("details", { "data-key": "earlier" }, element("summary", {}, `${events.length - AT_FIRST} earlier`),
          table(status.name, events.slice(AT_FIRST)))
        : null]);
}

const table = (pipeline, events) =>
  element("table.events", {},
    element("thead.visually-hidden", {}, element("tr", {},
      ["When", "What", "Result", "Detail"].map((words) => element("th", { scope: "col" }, words)))),
    element("tbody", {}, events.map((event) => line(pipeline, event))));

function line(pipeline, { kind, began_at: began, ended_at: ended, result, detail, error, asked_by: by, airflow_run: run }) {
  const dag = run && DAG_OF_KIND[kind] ? `${DAG_OF_KIND[kind]}__${pipeline}` : null;
  const lasted = ended ? ` (${age(Date.parse(ended) - Date.parse(began))})` : "";
  return element("tr", {},
    element("td.quiet.when", {}, clock(began)),
    element("td.what", {}, element(`span.swatch.mark-${kind}`, { "aria-hidden": "true" }), WORDS[kind] ?? kind),
    element("td", {}, result ? workBadge(result) : null),
    element("td.detail", {}, detail, element("span.quiet", {}, lasted), by ? `, by ${by}` : null,
      error ? element(result === "failed" ? "span.late" : "span.quiet", {}, ` ${error}`) : null,
      dag ? element("a", { href: airflowAddress(`dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}`) }, " run") : null));
}
