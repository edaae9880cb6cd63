// How fresh the facts of a span were, all together.

import { element } from "../dom/element.js";
import { count, lateBy } from "../numbers.js";
import { lateness } from "../views/freshness_bar.js";

const SHARES = [["p50", "p50_ms"], ["p90", "p90_ms"], ["p99", "p99_ms"], ["p99.9", "p999_ms"]];

export const distribution = ({ distribution: whole, target_ms: target }) =>
  element("dl.distribution", { "aria-label": "Freshness of all facts of this time" },
    SHARES.map(([name, key]) => element("div", {}, element("dt", {}, name),
      element(`dd${lateness(whole[key], target)}`, {}, lateBy(whole[key])))),
    element("div", {}, element("dt", {}, "of events"), element("dd", {}, count(whole.events))));
