// While no pipeline is chosen and there are few: the freshness of each over the last 15 minutes.

import { element } from "../dom/element.js";
import { startFeed } from "../feed.js";
import { getFigures } from "../host/requests.js";
import { freshnessChart } from "./freshness_chart.js";

const MOST = 6;
const PAUSE = 8000;

export class Glance {
  #place = document.getElementById("glance");
  #shown = [];

  /** Show charts of these pipelines; of none if there are too many. */
  show(statuses) {
    const wanted = statuses.length > MOST ? [] : statuses;
    const names = wanted.map(({ name }) => name).join("\n");
    if (names !== this.#shown.map(({ name }) => name).join("\n")) {
      this.#end();
      this.#shown = wanted.map(({ name }) => this.#begin(name));
    }
    this.#shown.forEach((one, index) => aim(one, wanted[index].target_ms));
  }

  /** Draw again, in the colours that count now. */
  redraw() {
    this.#shown.forEach((one) => {
      one.chart?.destroy();
      one.chart = null;
      if (one.history) draw(one);
    });
  }

  #begin(name) {
    const place = element("div.chart", { role: "img", "aria-label": `Freshness of ${name} over the last 15 minutes` });
    const title = element("h2", {}, name, element("span.quiet", {}, " freshness, last 15 min"));
    this.#place.append(element("article.panel", {}, title, place));
    const one = { name, target: null, place, chart: null, history: null };
    one.feed = startFeed(
      () => getFigures("api/history", { pipeline: name, span: "15m" }),
      PAUSE,
      (history) => {
        one.history = history;
        draw(one);
      },
      () => {}, // the figures' feed tells what is wrong
    );
    return one;
  }

  #end() {
    this.#shown.forEach(({ feed, chart }) => {
      feed.stop();
      chart?.destroy();
    });
    this.#place.replaceChildren();
  }
}

function aim(one, target) {
  if (target === one.target) return;
  one.target = target;
  if (one.history) draw(one);
}

function draw(one) {
  if (!one.history.at.length) return;
  one.chart ??= freshnessChart(one.place, "glance");
  one.chart.setHistory({ ...one.history, target_ms: one.target });
}
