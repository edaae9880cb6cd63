// Freshness over time, against its target of now, `target_ms` of the history that is shown.

import { lateBy } from "../numbers.js";
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
    (history) => [history.p50_ms, history.p99_ms, history.at.map(() => history.target_ms)],
  );
