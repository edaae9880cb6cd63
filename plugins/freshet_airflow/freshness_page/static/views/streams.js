// The streams of a pipeline that joins several: how far each has come, and what waits.

import { element } from "../dom/element.js";
import { ago, clock, count, since } from "../numbers.js";
import { badge, explained, panel } from "./parts.js";

const COLUMNS = [
  ["Stream", null],
  ["Event time", "The latest event time so far."],
  ["Arrived", "Events read in the last hour."],
  ["Joined", "Those whose first result was found in the last hour."],
  ["Waiting", "Events that are in no result yet."],
  ["Expired", "Events of the last hour that found no partner in their time. They are held."],
  ["Late", "Events of the last hour that came later than the lateness allows. They are held."],
  ["Rejected", "Records of the last hour without id, key or time, or that can't be read."],
];

export function streams(status) {
  const all = status.streams ?? [];
  if (!all.length) return null;
  return panel("streams", "Streams",
    element("table", {},
      element("thead", {}, element("tr", {}, COLUMNS.map(([words, meaning]) =>
        element("th", { scope: "col" }, meaning ? explained(words, meaning) : words)))),
      element("tbody", {}, all.map(row))));
}

const row = (each) =>
  element("tr", { "data-key": `stream-${each.stream}` },
    element("th", { scope: "row" }, each.stream, " ",
      each.idle ? badge("idle") : null,
      each.holds_back && !each.idle ? element("span.quiet", {}, "the others wait for it") : null),
    element("td", {}, clock(each.newest), " ", element("span.quiet", {}, `read ${ago(since(each.last_arrival))}`)),
    ...["arrived", "joined", "waiting", "expired", "late", "rejected"].map((name) => element("td", {}, count(each[name]))));
