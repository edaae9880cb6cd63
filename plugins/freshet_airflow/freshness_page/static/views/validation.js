// The last validation of the facts.

import { dagLink, runButton } from "../actions/run_buttons.js";
import { element } from "../dom/element.js";
import { pageAddress } from "../host/airflow.js";
import { ago, count, since } from "../numbers.js";
import { panel, workBadge } from "./parts.js";

export function validation(status, dags) {
  return panel("validation", "Validation",
    status.validation ? newest(status.name, status.validation) : element("p.quiet", {}, whyNone(status)),
    element("div.buttons", {},
      runButton("Validate now", dags?.validate_facts), dagLink(dags?.validate_facts, "with a form")));
}

function whyNone(status) {
  return "validation" in status
    ? "No facts have been validated yet."
    : `Shown to users who may read the DAG validate_facts__${status.name}.`;
}

function newest(pipeline, run) {
  const looked = [run.facts === null ? null : `${count(run.facts)} facts`,
    run.expectations === null ? null : `${count(run.expectations)} expectations`].filter(Boolean).join(", ");
  return [
    element("p", {}, workBadge(run.result), ` ${ago(since(run.closed_at ?? run.started_at))}`),
    run.running_since && run.result !== "running"
      ? element("p.quiet", {}, `Another one is running, started ${ago(since(run.running_since))}.`) : null,
    element("p.quiet", {}, [run.scope, looked].filter(Boolean).join(": ")),
    run.failures?.length
      ? element("ul.failures", {}, run.failures.map((failure) => element("li", {}, failure)))
      : null,
    run.error ? element("p.late", {}, run.error) : null,
    run.page ? element("p", {}, element("a", { href: docsAddress(pipeline, run.page), target: "_blank" }, "Data Docs of this validation")) : null,
  ];
}

const docsAddress = (pipeline, page) =>
  pageAddress(`docs/${encodeURIComponent(pipeline)}/${page.split("/").map(encodeURIComponent).join("/")}`);
