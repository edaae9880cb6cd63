// Freshness over time, against its target of now, `target_ms` of the history that is shown. The axis is logarithmic:
// one old event must not flatten all others.

import { lateBy } from "../numbers.js";
import { roundRange, roundTicks } from "./ticks.js";
import { TimeChart, colour } from "./time_chart.js";

export const freshnessChart = (place, pipeline) =>
  new TimeChart(
    place,
    pipeline,
    [
      { label: "p50", stroke: colour("p50") },
      { label: "p99", stroke: colour("p99") },
      { label: "target", stroke: colour("target"), dash: [6, 4], width: 1 },
    ],
    lateBy,
    (history) => [history.p50_ms.map(shown), history.p99_ms.map(shown), history.at.map(() => history.target_ms)],
    {
      scale: { distr: 3, range: (_, least, most) => roundRange(least ?? 1, most ?? 1000) },
      splits: (_, axis, least, most) => roundTicks(least, most),
    },
  );

// A logarithmic axis has no zero; histograms begin at a millisecond.
const shown = (milliseconds) => (milliseconds === null ? null : Math.max(milliseconds, 1));
