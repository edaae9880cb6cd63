// A chart over time, by uPlot, in the page's colours; it follows the width of its place.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { drawMarks } from "./marks.js";

const CHART_HEIGHT = 215;
const LEAST_AXIS_WIDTH = 58;
const FROM_ZERO = { range: (_, least, most) => [0, (most || 1) * 1.1] };

/** How wide the axis of the values is: its longest label fits. */
const widthOf = (_, labels) => Math.max(LEAST_AXIS_WIDTH, 12 + 7 * Math.max(...(labels ?? [""]).map((label) => label.length)));

/** A colour of the page's style sheet. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class TimeChart {
  #plot;
  #place;
  #columns;
  #marks = [];
  #watcher;

  /**
   * @param {HTMLElement} place where it goes.
   * @param {string} pipeline charts of one pipeline show the same moment under the pointer.
   * @param {object[]} series uPlot's series, without the time.
   * @param {(value: number) => string} words a value with its unit.
   * @param {(history: object) => Array[]} columns the values of each series.
   * @param {{scale?: object, splits?: Function}} axisOfValues uPlot's; without it linear, from zero.
   */
  constructor(place, pipeline, series, words, columns, { scale = FROM_ZERO, splits } = {}) {
    this.#place = place;
    this.#columns = columns;
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    this.#plot = new uPlot(
      {
        width: this.#width(),
        height: CHART_HEIGHT,
        cursor: { sync: { key: pipeline }, drag: { x: false, y: false } },
        legend: { live: true },
        scales: { y: scale },
        hooks: { draw: [(plot) => drawMarks(plot, this.#marks)] },
        axes: [
          { ...axis, size: 26, values: (_, splits, ...rest) => splits.map((at) => timeOfDay(at, rest.at(-1))) },
          { ...axis, size: widthOf, splits, filter: (_, all) => all, values: (_, all) => all.map(words) },
        ],
        series: [
          { label: "at", value: (plot, at) => timeOfDay(at ?? plot.data[0].at(-1), 1) },
          ...series.map((each) => ({
            width: 2,
            points: { show: true, filter: lonely, size: 5, fill: each.stroke },
            value: told(words),
            ...each,
          })),
        ],
      },
      null,
      place,
    );
    this.#watcher = new ResizeObserver(() => this.#plot.setSize({ width: this.#width(), height: CHART_HEIGHT }));
    this.#watcher.observe(place);
  }

  /** Show these figures, and marks of these events. */
  setHistory(history, marks = []) {
    this.#marks = marks;
    this.#plot.setData([history.at, ...this.#columns(history)]);
  }

  /** Take it away. */
  destroy() {
    this.#watcher.disconnect();
    this.#plot.destroy();
  }

  #width() {
    return Math.max(this.#place.clientWidth, 200);
  }
}

// Under the pointer the value there, else the newest one.
const told = (words) => (plot, value, series, at) =>
  words(at === null ? plot.data[series]?.findLast((each) => each !== null) : value);

// A line needs two neighbours; where batches are rarer than steps, values have none, and are drawn as points.
const lonely = (plot, series) =>
  plot.data[series].flatMap((value, at, all) =>
    (value !== null && (all[at - 1] ?? null) === null && (all[at + 1] ?? null) === null ? [at] : []));

function timeOfDay(epochSeconds, incrementSeconds) {
  const seconds = incrementSeconds < 60 ? { second: "2-digit" } : {};
  if (epochSeconds === undefined) return "";
  return new Date(epochSeconds * 1000).toLocaleTimeString([], {
    hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...seconds,
  });
}
