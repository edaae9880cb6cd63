// Arrival rate and service rate, and what is put off in between.

import { SHED } from "../held/places.js";
import { rate } from "../numbers.js";
import { TimeChart, colour } from "./time_chart.js";

export const ratesChart = (place, pipeline) =>
  new TimeChart(
    place,
    pipeline,
    [
      { label: "arriving", stroke: colour("arriving"), fill: colour("arriving-area") },
      { label: "loaded", stroke: colour("loaded") },
      { label: SHED, stroke: colour(SHED), dash: [4, 3] },
    ],
    rate,
    (history) => [history.arrived, history.loaded, history.shed],
  );
