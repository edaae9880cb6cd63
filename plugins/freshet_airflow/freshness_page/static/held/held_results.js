// What the explorer has found: groups by reason, and some of the tuples.

import { element } from "../dom/element.js";
import { ago, clock, count, since } from "../numbers.js";
import { explained } from "../views/parts.js";

const COLUMNS = [
  ["Tuples", null, "number"],
  ["Place", null],
  ["Reason", "Of one of them: reasons that differ in numbers only are one group. Choose it to see these alone."],
  ["Missing keys", "The keys that most unmatched tuples have; of JSON records only."],
  ["Oldest", "When the first of them arrived."],
];

export const groupsTable = (groups) =>
  element("table.held-groups", {},
    element("thead", {}, element("tr", {}, COLUMNS.map(([words, meaning, look]) =>
      element("th", { scope: "col", class: look }, meaning ? explained(words, meaning) : words)))),
    element("tbody", {}, groups.map(group)));

const group = ({ place, reason, tuples, hopeless, requeued, unjoined, keys, oldest }) =>
  element("tr", {},
    element("td.number", {}, count(tuples)),
    element("td", {}, element(`span.swatch.place-${place}`, { "aria-hidden": "true" }), requeued === tuples ? "requeued" : place),
    element("td.reason", {}, choice({ place, reason: commonPart(reason) }, reason),
      hopeless ? element("span.quiet", {}, ` ${count(hopeless)} can't become facts`) : null,
      unjoined ? element("span.quiet", {}, ` ${count(unjoined)} wait to be joined`) : null),
    element("td", {}, keys.map(([key, number]) =>
      element("span.key", {}, key.includes(", ") ? key : choice({ place, text: key }, key), element("span.quiet", {}, ` ${count(number)}`)))),
    element("td.quiet", { title: clock(oldest) }, ago(since(oldest))));

const choice = (filter, words) =>
  element("button.link", { type: "button", "data-filter": JSON.stringify(filter), title: "Show these alone" }, words);

// A part without numbers is in the reasons of all: the longest.
const commonPart = (reason) => reason.split(/[0-9…]+/).reduce((long, part) => (part.length > long.length ? part : long), "").trim();

export const samplesList = (samples) => [
  element("h4", {}, `The newest${samples.length > 1 ? ` ${samples.length}` : ""}`),
  element("ul.samples", {}, samples.map((each) => element("li", { "data-key": each.event_id },
    element("details", {},
      element("summary", {}, element(`span.swatch.place-${each.place}`, { "aria-hidden": "true" }),
        element("code", {}, each.event_id), " ", element("span.quiet", {}, `${each.place} `), each.reason),
      element("p.quiet", {}, origin(each)),
      element("pre.query", { tabindex: "0" }, each.payload))))),
];

function origin({ arrived_at: arrived, attempts, source_unit: unit, source_position: position }) {
  const from = unit === null ? "" : ` from ${unit}, at ${count(position)}`;
  const tried = attempts ? `; tried ${attempts} time${attempts === 1 ? "" : "s"}` : "";
  return `Arrived ${clock(arrived)}${from}${tried}.`;
}
