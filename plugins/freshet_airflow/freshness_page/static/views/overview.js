// All pipelines, one line each, worst first.

import { element } from "../dom/element.js";
import { morphChildren } from "../dom/morph.js";
import { STATE_WORDS, arrivalRate, countIn, isLate, problems, unread, unreadFiles } from "../health.js";
import { PLACES } from "../held/places.js";
import { age, count, duration, lateBy, rate, share, shortCount } from "../numbers.js";
import { NOW } from "./freshness.js";
import { freshnessBar, lateness } from "./freshness_bar.js";
import { countedStates, groupedByState, inOrder, isSortable } from "./overview_order.js";
import { badge, explained, workBadge } from "./parts.js";

const place = document.getElementById("overview");
const summary = document.getElementById("summary");
const filter = document.getElementById("filter");
const group = document.getElementById("group");
const FILTER_FROM = 8;

let order = [];
let by = { column: null, reversed: false };

/** @param {object[]} statuses of all pipelines; @param {string|null} chosen name of the chosen one. */
export function showOverview(statuses, chosen) {
  document.getElementById("filters").hidden = statuses.length < FILTER_FROM;
  summary.textContent = summarized(statuses);
  const sought = filter.value.trim().toLowerCase();
  const found = ordered(statuses).filter(({ name, state }) => name.toLowerCase().includes(sought) || state === sought);
  place.classList.toggle("beside-detail", chosen !== null);
  morphChildren(place, element("div", {}, statuses.length ? table(found, chosen, sought) : noPipelines()));
}

// A line must not run away from the pointer or the keyboard that is about to choose it.
function ordered(statuses) {
  const busy = place.matches(":hover, :focus-within") && order.length === statuses.length;
  if (!busy) order = inOrder(statuses, by).map(({ name }) => name);
  const byName = new Map(statuses.map((status) => [status.name, status]));
  return order.map((name) => byName.get(name)).filter(Boolean);
}

/** Order the lines by the column whose heading is pressed; again: the other way round; once more: worst first. */
export function listenToHeadings(changed) {
  place.addEventListener("click", ({ target }) => {
    const column = target.closest("[data-column]")?.dataset.column;
    if (!column) return;
    by = by.column !== column ? { column, reversed: false } : by.reversed ? { column: null, reversed: false } : { column, reversed: true };
    order = [];
    changed();
  });
}

function summarized(statuses) {
  const words = countedStates(statuses).map(([state, number]) => `${number} ${state}`).join(", ");
  return statuses.length ? `${count(statuses.length)} pipeline${statuses.length > 1 ? "s" : ""}: ${words}` : "";
}

const noPipelines = () =>
  element("div.empty", {},
    element("h2", {}, "No pipeline yet"),
    element("p", {}, "A pipeline appears here once its driver has started for the first time: put its YAML file into ",
      element("code", {}, "dags/pipelines/"), " and trigger ", element("code", {}, "stream_load__<pipeline>"), "."));

function table(statuses, chosen, sought) {
  // What is roomy is left to the detail where there is no room for it.
  const headings = [
    ["Pipeline"], ["State"],
    ["Lag", "What has landed and is not loaded, and how long the oldest of it has waited."],
    ["Freshness now", `${NOW} The mark is the target.`],
    ["Last hour", "Freshness p99 of the last hour.", "number roomy"],
    ["Last day", "Freshness p99 of the last day.", "number"],
    ["Arriving", "Events per second that were stored anywhere in the last minute.", "number"],
    ["Loaded", "Facts per second in the last minute: the service rate.", "number roomy"],
    ["Hits", "Share of lookups that the front stage answered from memory.", "number roomy"],
    ["Shed", "Put off under overload; reprocess_shed loads them.", "number"],
    ["Unmatched", "Their key is not in the master data yet.", "number"],
    ["Rejected", "Bad input; it needs a look.", "number"],
    ["Validation", null, "roomy"],
  ];
  return element("div.table-room", { tabindex: "-1" },
    element("table.pipelines", {},
      element("caption.visually-hidden", {}, by.column ? `Pipelines, by ${by.column}` : "Pipelines, worst first"),
      element("thead", {}, element("tr", {}, headings.map(heading))),
      group.checked
        ? groupedByState(statuses).map(([state, each]) => element("tbody", { "data-key": `state-${state}` },
          element("tr.state-group", { "data-key": `heading-${state}` },
            element("th", { colspan: headings.length, scope: "rowgroup" }, badge(state), ` ${each.length}`)),
          each.map((status) => line(status, status.name === chosen))))
        : element("tbody", { "data-key": "all" }, statuses.map((status) => line(status, status.name === chosen)))),
    statuses.length ? null : element("p.empty", {}, `No pipeline's name contains “${sought}”, nor is its state that.`),
    chosen ? null : element("p.hint", {}, "Choose a pipeline to see why: its stages, balance, backlogs, caches and charts."));
}

function heading([name, meaning, look]) {
  const words = meaning ? explained(name, meaning) : name;
  if (!isSortable(name)) return element("th", { scope: "col", class: look }, words);
  const isChosen = by.column === name;
  const direction = !isChosen ? null : by.reversed === (name === "Pipeline" || name === "State") ? "descending" : "ascending";
  return element("th", { scope: "col", class: look, "aria-sort": direction },
    meaning ? words : name,
    element("button.sort", {
      type: "button", "data-column": name, "data-key": `sort-${name}`, "aria-label": `Order by ${name}`, "aria-pressed": String(isChosen),
    }, isChosen ? (by.reversed ? "▲" : "▼") : "↕"));
}

function line(status, isChosen) {
  const [worst] = problems(status);
  const now = status.freshness_now_ms;
  const period = (freshness, room = "") =>
    element(`td.number${room}${lateness(freshness?.p99_ms, status.target_ms)}`, {}, lateBy(freshness?.p99_ms));
  return element("tr", { "data-key": status.name, class: isChosen ? "chosen" : null },
    element("th.name", { scope: "row" },
      element("a", { href: `#${encodeURIComponent(status.name)}`, "aria-current": isChosen ? "true" : null }, status.name),
      worst ? element("span.problem", { title: worst.text }, worst.text) : null),
    element("td", {}, explained(badge(status.state), STATE_WORDS[status.state] ?? status.state)),
    lag(status),
    element("td.freshness", {},
      element(`span.p99${lateness(now, status.target_ms)}`, {}, lateBy(now)),
      element("span.quiet", {}, ` of ${duration(status.target_ms)}`),
      freshnessBar(now, status.target_ms)),
    period(status.freshness_hour, ".roomy"), period(status.freshness_day),
    element("td.number", {}, rate(arrivalRate(status))), element("td.number.roomy", {}, rate(status.service_rate)),
    element("td.number.roomy", {}, share(status.hit_ratio)),
    PLACES.map((held) => backlog(status, held)),
    element("td.roomy", {}, validation(status.validation)));
}

function lag(status) {
  const { oldest_unread_age_ms: oldest } = status.lag;
  return element(`td.lag${isLate(status) && oldest !== null ? ".late" : ""}`, { title: unread(status) },
    unreadFiles(status), oldest === null ? null : element("span.quiet.oldest", {}, ` ${age(oldest)}`));
}

function backlog(status, held) {
  const waiting = countIn(status, held);
  const oldest = status.backlog?.[held]?.oldest_age_ms;
  return element(`td.number${waiting ? ".waiting" : ".quiet"}`,
    { title: waiting ? `${count(waiting)}, the oldest for ${age(oldest)}` : null }, shortCount(waiting));
}

function validation(newest) {
  if (newest === undefined) return element("span.quiet", {}, "hidden"); // from users who may not read its DAG
  if (!newest) return element("span.quiet", {}, "none yet");
  return workBadge(newest.result);
}

