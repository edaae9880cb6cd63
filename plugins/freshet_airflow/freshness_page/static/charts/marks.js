// Marks on the charts: what happened to the pipeline at a moment.

import { element } from "../dom/element.js";
import { clock } from "../numbers.js";
import { colour } from "./time_chart.js";

/** Kind of event -> what its mark means; others are listed, and not marked. */
const MARKED = {
  restart: "restart",
  end: "driver ended",
  reprocessing: "reprocessing",
  requeue: "requeued",
  forget: "forgotten",
  rebuild: "cache rebuilt",
  definition: "definition changed",
};

/** The events that are marked of those that happened between two moments, in seconds since 1970. */
export const markedBetween = (events, first, last) =>
  events
    .filter(({ kind, began_at: at }) => MARKED[kind] && Date.parse(at) / 1000 >= first && Date.parse(at) / 1000 <= last)
    .filter(({ kind, result }) => kind !== "end" || result === "failed");

/** Draw a line for each of these events, the newest first of them, on uPlot's canvas; newer ones lie on top. */
export function drawMarks(plot, events) {
  const { ctx: paint, bbox: room } = plot;
  paint.save();
  paint.lineWidth = devicePixelRatio;
  for (const { kind, began_at: at } of [...events].reverse()) {
    const x = 0.5 + Math.round(plot.valToPos(Date.parse(at) / 1000, "x", true));
    paint.strokeStyle = paint.fillStyle = colour(`mark-${kind}`);
    paint.beginPath();
    paint.moveTo(x, room.top);
    paint.lineTo(x, room.top + room.height);
    paint.stroke();
    paint.beginPath();
    paint.arc(x, room.top, 4 * devicePixelRatio, 0, 2 * Math.PI);
    paint.fill();
  }
  paint.restore();
}

/** What the marks mean: one entry for each kind, with when it happened. */
export function markLegend(events) {
  const kinds = Object.keys(MARKED).filter((kind) => events.some((event) => event.kind === kind));
  return element("ul.marks", { "aria-label": "Marks on the charts" }, kinds.map((kind) => {
    const times = events.filter((event) => event.kind === kind).map(({ began_at: at }) => clock(at));
    const more = times.length > 3 ? ` and ${times.length - 3} more` : "";
    return element("li", {}, element(`span.swatch.mark-${kind}`, { "aria-hidden": "true" }), MARKED[kind],
      element("span.quiet", {}, ` ${times.slice(0, 3).join(", ")}${more}`));
  }));
}
