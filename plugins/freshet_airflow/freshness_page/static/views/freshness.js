// Freshness now and over longer times, against its target.

import { element } from "../dom/element.js";
import { duration, rate, share } from "../numbers.js";
import { freshnessBar, lateness } from "./freshness_bar.js";
import { explained, facts, panel } from "./parts.js";

export function freshness(status) {
  const periods = [
    [`Last ${status.window_seconds} s`, status.freshness_window],
    ["Last hour", status.freshness_hour],
    ["Last day", status.freshness_day],
    ["All time", status.freshness_whole],
  ];
  return panel("freshness", "Freshness",
    element("table.periods", {},
      element("thead", {}, element("tr", {},
        element("th", { scope: "col" }, explained("Event to commit", "Time from an event until it can be read as a fact.")),
        element("th.number", { scope: "col" }, explained("p50", "Half of the facts were this fresh or fresher.")),
        element("th.number", { scope: "col" }, explained("p99", "99 of 100 facts were so fresh, or fresher.")),
        element("th", { scope: "col" }, `target ${duration(status.target_ms)}`))),
      element("tbody", {}, periods.map(([name, period]) => line(name, period, status.target_ms)))),
    facts([
      ["Arriving", rate(status.arrival_rate)],
      ["Loaded", rate(status.service_rate)],
      ["Front stage hits", share(status.hit_ratio)],
    ]));
}

function line(name, period, target) {
  const cell = (value) => element(`td.number${lateness(value, target)}`, {}, duration(value));
  return element("tr", {}, element("th", { scope: "row" }, name), cell(period?.p50_ms), cell(period?.p99_ms),
    element("td", {}, freshnessBar(period?.p99_ms, target)));
}
