// The order of the overview's lines: worst first, or by a column that the reader chooses.

import { figure } from "../figures.js";
import { worstFirst } from "../health.js";

/** Column's key -> its value, where that is no figure. */
const VALUES = {
  pipeline: ({ name }) => name,
  state: ({ state }) => state,
  lag: ({ lag }) => lag.oldest_unread_age_ms,
};

/** Whether a column is ordered from A on; of figures the largest comes first. */
export const isText = (key) => key === "pipeline" || key === "state";

/** @param {{column: string|null, reversed: boolean}} by without a column worst first. */
export function inOrder(statuses, { column, reversed }) {
  const worst = worstFirst(statuses);
  if (!column) return worst;
  const value = VALUES[column] ?? ((status) => figure(status, column));
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
