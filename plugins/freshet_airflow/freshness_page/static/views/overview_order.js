// The order of the overview's lines: worst first, or by a column that the reader chooses.

import { arrivalRate, countIn, worstFirst } from "../health.js";
import { SHED } from "../held/places.js";

/** Column -> its value, by which lines can be ordered; the largest first, texts from A on. */
const VALUES = {
  Pipeline: ({ name }) => name,
  State: ({ state }) => state,
  Lag: ({ lag }) => lag.oldest_unread_age_ms,
  "Freshness now": (status) => status.freshness_now_ms,
  "Last hour": ({ freshness_hour: hour }) => hour?.p99_ms,
  "Last day": ({ freshness_day: day }) => day?.p99_ms,
  Arriving: arrivalRate,
  Loaded: (status) => status.service_rate,
  Hits: (status) => status.hit_ratio,
  Shed: (status) => countIn(status, SHED),
  Unmatched: ({ unmatched }) => unmatched,
  Rejected: ({ rejected }) => rejected,
};

export const isSortable = (column) => column in VALUES;

/** @param {{column: string|null, reversed: boolean}} by without a column worst first. */
export function inOrder(statuses, { column, reversed }) {
  const worst = worstFirst(statuses);
  if (!column) return worst;
  const value = VALUES[column];
  const sorted = worst.sort((one, other) => compared(value(one), value(other)));
  return reversed ? sorted.reverse() : sorted;
}

function compared(one, other) {
  if (typeof one === "string") return one.localeCompare(other);
  return (other ?? -1) - (one ?? -1);
}

/** The states, with their numbers: [[state, number]], in the order of the lines. */
export function countedStates(statuses) {
  const counts = new Map();
  for (const { state } of worstFirst(statuses)) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts];
}

/** The statuses by state: [[state, statuses]], each in its order. */
export function groupedByState(statuses) {
  const groups = new Map();
  for (const [state] of countedStates(statuses)) groups.set(state, []);
  for (const status of statuses) groups.get(status.state).push(status);
  return [...groups];
}
