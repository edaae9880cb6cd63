// Where the time goes on an event's way into the warehouse: one stacked bar.

import { element } from "../dom/element.js";
import { duration } from "../numbers.js";
import { explained, panel } from "./parts.js";

const STAGES = [
  ["arrival", "Arrival", "From the event until its file has landed."],
  ["waiting", "Waiting", "From landing until its batch begins."],
  ["front_stage", "Front stage", "Reading the batch and looking keys up in memory."],
  ["back_stage", "Back stage", "Reading master data for the keys that were not in memory."],
  ["commit", "Commit", "Writing facts and held tuples, and committing them."],
];

export function stages(status) {
  const times = STAGES.map(([key, name, meaning]) => ({ key, name, meaning, time: status.stages_ms?.[key] ?? null }));
  const whole = times.reduce((sum, { time }) => sum + (time ?? 0), 0);
  return panel("stages", "Latency by stage", whole ? bar(times, whole) : element("p.quiet", {}, "Nothing has been loaded recently."));
}

function bar(times, whole) {
  return [
    element("div.stacked-bar", { "aria-hidden": "true" }, times.filter(({ time }) => time).map(({ key, name, time }) =>
      element(`span.part.stage-${key}`, { "data-key": key, style: { "flex-grow": String(time) }, title: `${name} ${duration(time)}` }))),
    element("ul.legend", {}, times.map(({ key, name, meaning, time }) =>
      element("li", {}, element(`span.swatch.stage-${key}`, { "aria-hidden": "true" }), explained(name, meaning),
        element("span.value", {}, duration(time))))),
    element("p.quiet", {}, `Together ${duration(whole)} on average.`),
  ];
}
