// All pipelines, one line each, worst first.

import { element } from "../dom/element.js";
import { morphChildren } from "../dom/morph.js";
import { columns, figure } from "../figures.js";
import { STATE_WORDS, isLate, problems, unread, unreadFiles } from "../health.js";
import { PLACES } from "../held/places.js";
import { age, count, duration, lateBy, rate, share, shortCount } from "../numbers.js";
import { freshnessBar, lateness } from "./freshness_bar.js";
import { countedStates, groupedByState, inOrder, isText } from "./overview_order.js";
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
  return element("div.table-room", { tabindex: "-1" },
    element("table.pipelines", {},
      element("caption.visually-hidden", {}, by.column ? `Pipelines, by ${headingOf(by.column)}` : "Pipelines, worst first"),
      element("thead", {}, element("tr", {}, columns().map(heading))),
      group.checked
        ? groupedByState(statuses).map(([state, each]) => element("tbody", { "data-key": `state-${state}` },
          element("tr.state-group", { "data-key": `heading-${state}` },
            element("th", { colspan: columns().length, scope: "rowgroup" }, badge(state), ` ${each.length}`)),
          each.map((status) => line(status, status.name === chosen))))
        : element("tbody", { "data-key": "all" }, statuses.map((status) => line(status, status.name === chosen)))),
    statuses.length ? null : element("p.empty", {}, `No pipeline's name contains “${sought}”, nor is its state that.`),
    chosen ? null : element("p.hint", {}, "Choose a pipeline to see why: its stages, balance, backlogs, caches and charts."));
}

const headingOf = (key) => columns().find((column) => column.key === key)?.heading;

// What is roomy is left to the detail where there is no room for it.
function heading({ key, heading: name, meaning, unit, is_roomy: roomy, is_ordered: ordered }) {
  const look = [unit && "number", roomy && "roomy"].filter(Boolean).join(" ") || null;
  const words = meaning ? explained(name, meaning) : name;
  if (!ordered) return element("th", { scope: "col", class: look }, words);
  const isChosen = by.column === key;
  const direction = !isChosen ? null : by.reversed === isText(key) ? "descending" : "ascending";
  return element("th", { scope: "col", class: look, "aria-sort": direction },
    words,
    element("button.sort", {
      type: "button", "data-column": key, "data-key": `sort-${key}`, "aria-label": `Order by ${name}`, "aria-pressed": String(isChosen),
    }, isChosen ? (by.reversed ? "▲" : "▼") : "↕"));
}

const line = (status, isChosen) =>
  element("tr", { "data-key": status.name, class: isChosen ? "chosen" : null },
    columns().map((column) => (APART[column.key] ?? cell)(status, column, isChosen)));

/** Column's key -> its cell, where that is more than a number with its unit. */
const APART = {
  pipeline(status, column, isChosen) {
    const [worst] = problems(status);
    return element("th.name", { scope: "row" },
      element("a", { href: `#${encodeURIComponent(status.name)}`, "aria-current": isChosen ? "true" : null }, status.name),
      worst ? element("span.problem", { title: worst.text }, worst.text) : null);
  },
  state: ({ state }) => element("td", {}, explained(badge(state), STATE_WORDS[state] ?? state)),
  lag,
  freshness_now_ms(status, { key }) {
    const now = figure(status, key);
    return element("td.freshness", {},
      element(`span.p99${lateness(now, status.target_ms)}`, {}, lateBy(now)),
      element("span.quiet", {}, ` of ${duration(status.target_ms)}`),
      freshnessBar(now, status.target_ms));
  },
  ...Object.fromEntries(PLACES.map((held) => [`backlog_${held}`, (status, { key }) => backlog(status, held, figure(status, key))])),
  validation: ({ validation: newest }) => element("td.roomy", {}, validation(newest)),
};

const SHOWN = { ms: lateBy, "per second": rate, share, tuples: shortCount };

function cell(status, { key, unit, is_roomy: roomy }) {
  const value = figure(status, key);
  const look = unit === "ms" ? lateness(value, status.target_ms) : "";
  return element(`td.number${roomy ? ".roomy" : ""}${look}`, {}, SHOWN[unit](value));
}

function lag(status) {
  const { oldest_unread_age_ms: oldest } = status.lag;
  return element(`td.lag${isLate(status) && oldest !== null ? ".late" : ""}`, { title: unread(status) },
    unreadFiles(status), oldest === null ? null : element("span.quiet.oldest", {}, ` ${age(oldest)}`));
}

function backlog(status, held, waiting) {
  const oldest = status.backlog?.[held]?.oldest_age_ms;
  return element(`td.number${waiting ? ".waiting" : ".quiet"}`,
    { title: waiting ? `${count(waiting)}, the oldest for ${age(oldest)}` : null }, shortCount(waiting));
}

function validation(newest) {
  if (newest === undefined) return element("span.quiet", {}, "hidden"); // from users who may not read its DAG
  if (!newest) return element("span.quiet", {}, "none yet");
  return workBadge(newest.result);
}

