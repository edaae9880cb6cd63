// Of a pipeline that reads a log: how far each partition has been read; of several streams, of each.

import { element } from "../dom/element.js";
import { age, count, since } from "../numbers.js";
import { explained, panel } from "./parts.js";

const COLUMNS = [
  ["Partition", null],
  ["Read up to", "Offset up to which batches have taken it.", "number"],
  ["Unread", "Records between there and its end, when the driver looked last.", "number"],
  ["Oldest waits", "Since when the first unread record is known to be there.", "number"],
];

export function partitions({ lag }) {
  if (!lag.partitions.length) return null;
  return panel("partitions", "Partitions",
    element("div.partitions-room", { tabindex: "0", "aria-label": "Partitions" }, element("table", {},
      element("thead", {}, element("tr", {}, COLUMNS.map(([words, meaning, look]) =>
        element("th", { scope: "col", class: look }, meaning ? explained(words, meaning) : words)))),
      element("tbody", {}, lag.partitions.map(row)))),
    lag.at_least ? element("p.quiet", {}, "As of the driver's last look: more may have come since.") : null);
}

function row({ partition, position, end, since: first, trouble }) {
  const unread = Math.max(end - position, 0);
  return element("tr", { "data-key": partition },
    element("th", { scope: "row" }, partition, trouble ? element("p.late", {}, `can't be read: ${trouble}`) : null),
    element("td.number", {}, count(position)),
    element(`td.number${unread ? ".waiting" : ""}`, {}, count(unread)),
    element("td.number", {}, age(since(first))));
}
