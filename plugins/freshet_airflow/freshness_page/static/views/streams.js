// The streams of a pipeline that joins several: how far each has come, and what waits.

import { element } from "../dom/element.js";
import { REJECTED } from "../held/places.js";
import { NOTHING, age, ago, clock, count, share, since } from "../numbers.js";
import { badge, explained, panel } from "./parts.js";

const COLUMNS = [
  ["Stream", null],
  ["Event time", "The latest event time so far, and how far it is behind the stream that is furthest."],
  ["Read", "When an event of it was read last."],
  ["Arrived", "Events read in the last hour.", "number"],
  ["Joined", "Those whose first result was found in the last hour.", "number"],
  ["Waiting", "Events that are in no result yet.", "number"],
  ["Expired", "Events of the last hour that found no partner in their time. They are held.", "number"],
  ["Late", "Events of the last hour that came later than the lateness allows. They are held.", "number"],
  ["Rejected", "Records of the last hour without id, key or time, or that can't be read.", "number"],
];
// Of pipelines that have them.
const PUNCTUATED = [
  ["Punctuations", "How often it was said in the last hour that no more of a key come.", "number"],
  ["Purged", "Events that left the state in the last hour since the other streams bring no more of their key.", "number"],
  ["After the last", "Events of the last hour that came though a punctuation had said that no more of their key come. They are held.", "number"],
];
const PUNCTUATED_COUNTS = ["punctuations", "purged", "after_last"];
const FILLED = ["In facts", "Share of all facts in which a part of this stream has come, by the ledger.", "number"];
const COUNTS = ["arrived", "joined", "waiting", "expired", "late", REJECTED];

/** @param {object|null} filled of accumulating facts: stream -> share of them in which its part has come. */
export function streams(status, filled) {
  const all = status.streams ?? [];
  if (!all.length) return null;
  const punctuated = all.some((each) => PUNCTUATED_COUNTS.some((name) => each[name]));
  const columns = [...COLUMNS, ...(punctuated ? PUNCTUATED : []), ...(filled ? [FILLED] : [])];
  const counts = punctuated ? [...COUNTS, ...PUNCTUATED_COUNTS] : COUNTS;
  const furthest = Math.max(...all.map(({ newest }) => Date.parse(newest ?? 0)));
  return panel("streams", "Streams",
    element("table", {},
      element("thead", {}, element("tr", {}, columns.map(([words, meaning, look]) =>
        element("th", { scope: "col", class: look }, meaning ? explained(words, meaning) : words)))),
      element("tbody", {}, all.map((each) => row(each, furthest, counts, filled)))),
    heldBack(all),
    filled ? complete(Object.values(filled)) : null);
}

function row(each, furthest, counts, filled) {
  const behind = each.newest ? furthest - Date.parse(each.newest) : null;
  return element("tr", { "data-key": `stream-${each.stream}` },
    element("th", { scope: "row" }, each.stream, " ", each.idle ? badge("idle") : null),
    element("td", {}, clock(each.newest), behind >= 1000 ? element("span.quiet", {}, ` ${age(behind)} behind`) : null),
    element("td", {}, each.last_arrival ? ago(since(each.last_arrival)) : NOTHING),
    counts.map((name) => element(`td.number${each[name] && HELD.includes(name) ? ".waiting" : ""}`, {}, count(each[name]))),
    filled ? element("td.number", {}, share(filled[each.stream])) : null);
}

const HELD = ["expired", "late", REJECTED, "after_last"];

function heldBack(all) {
  const slowest = all.filter(({ holds_back: holds, idle }) => holds && !idle).map(({ stream }) => stream);
  if (!slowest.length) return null;
  const waiting = all.filter(({ stream }) => !slowest.includes(stream)).reduce((sum, each) => sum + each.waiting, 0);
  return element("p.quiet", {}, `The others wait for ${slowest.join(", ")}: ${count(waiting)} of their events are in no result yet.`);
}

// The ledger counts parts, not which rows they are in: where several streams lack some, the share has bounds.
function complete(shares) {
  const most = Math.min(...shares);
  const least = Math.max(1 - shares.reduce((lacking, each) => lacking + 1 - each, 0), 0);
  const bounds = most - least < 0.0005 ? share(most) : `between ${share(least)} and ${share(most)}`;
  return element("p", {}, `Of all facts ${bounds} are complete: a part of each stream has come.`);
}
