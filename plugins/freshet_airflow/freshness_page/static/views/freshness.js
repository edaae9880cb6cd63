// Freshness now and over longer times, against its target.

import { element } from "../dom/element.js";
import { figure, meaningOf } from "../figures.js";
import { isLate, unread } from "../health.js";
import { NOTHING, ago, duration, lateBy, promised, rate, share } from "../numbers.js";
import { freshnessBar, lateness } from "./freshness_bar.js";
import { explained, facts, panel } from "./parts.js";

/** @param {object|null} objective how often the target was kept; null while that is not known. */
export function freshness(status, objective) {
  const periods = [
    [explained("Now", meaningOf("freshness_now_ms")), { p50_ms: null, p99_ms: status.freshness_now_ms }],
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
      [explained(`Within ${duration(status.target_ms)}`, KEPT), kept(objective)],
      [explained("Unread", "What has landed in the source and is not loaded: the lag."),
        element("span", { class: isLate(status) ? "late" : null }, unread(status))],
      ["Source looked at", looked(status.lag)],
      ["Last commit", status.lag.commit_age_ms === null ? "none yet" : ago(status.lag.commit_age_ms)],
      ["Arriving", rate(figure(status, "arriving"))],
      ["Loaded", rate(status.service_rate)],
      ["Front stage hits", share(status.hit_ratio)],
    ]));
}

const KEPT = "Of the events that were loaded or shed, the share that could be read as facts within the target of now. Shed ones are late; those that are unread do not count yet.";

function kept(objective) {
  const told = (period, words) => `${period.events ? promised(period.in_time / period.events) : NOTHING} ${words}`;
  return objective && `${told(objective.day, "of the last day")}, ${told(objective.month, "of 30 days")}`;
}

const looked = ({ looked_at: at, look_age_ms: age, at_least: mayBeMore }) =>
  (at ? `${ago(age)}${mayBeMore ? "; more may have landed since" : ""}` : NOTHING);

function line(name, period, target) {
  const cell = (value) => element(`td.number${lateness(value, target)}`, {}, lateBy(value));
  return element("tr", {}, element("th", { scope: "row" }, name), cell(period?.p50_ms), cell(period?.p99_ms),
    element("td", {}, freshnessBar(period?.p99_ms, target)));
}
