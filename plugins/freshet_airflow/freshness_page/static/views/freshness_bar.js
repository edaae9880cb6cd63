// How far a freshness is from its target, as a bar with a mark at the target.

import { element } from "../dom/element.js";

// The target is in the middle: there is as much room for too late as for in time.
const FULL = 2;

export function freshnessBar(milliseconds, targetMilliseconds) {
  const ratio = (milliseconds ?? 0) / targetMilliseconds;
  const filled = `${Math.min(ratio / FULL, 1) * 100}%`;
  return element("span.freshness-bar", { "aria-hidden": "true" },
    element(`span.filled${ratio > 1 ? ".late" : ""}`, { style: { width: filled } }), element("span.target"));
}

/** Class of a freshness: late or not. */
export const lateness = (milliseconds, targetMilliseconds) => (milliseconds > targetMilliseconds ? ".late" : "");
