// The charts of the chosen pipeline: rates, and freshness below them, over a span that the reader chooses.

import { element } from "../dom/element.js";
import { morphChildren } from "../dom/morph.js";
import { startFeed } from "../feed.js";
import { getFigures } from "../host/requests.js";
import { distribution } from "./distribution.js";
import { freshnessChart } from "./freshness_chart.js";
import { markLegend, markedBetween } from "./marks.js";
import { ratesChart } from "./rates_chart.js";

const SPANS = [
  { span: "15m", label: "15 min", pause: 4000 },
  { span: "1h", label: "1 h", pause: 15000 },
  { span: "1d", label: "1 d", pause: 60000 },
];

export class HistoryCharts {
  #name = null;
  #targetMilliseconds = 0;
  #span = SPANS[0];
  #place = null;
  #feed = null;
  #history = null;
  #events = [];
  #charts = [];

  /** Show the charts of this pipeline with its target of now and what has happened to it, or none. */
  show(name, status, events) {
    const place = status ? document.getElementById("charts") : null;
    if (name !== this.#name || place !== this.#place) {
      this.#end();
      this.#name = name;
      this.#place = place;
      if (place) this.#begin();
    }
    if (place) this.#aim(status.target_ms, events ?? []);
  }

  /** Draw again, in the colours that count now. */
  redraw() {
    this.#forgetCharts();
    if (this.#history) this.#draw();
  }

  #aim(targetMilliseconds, events) {
    if (targetMilliseconds === this.#targetMilliseconds && events === this.#events) return;
    this.#targetMilliseconds = targetMilliseconds;
    this.#events = events;
    if (this.#history) this.#draw();
  }

  #begin() {
    const { span, pause } = this.#span;
    this.#place.replaceChildren(
      this.#spanButtons(),
      element("div.chart.rates", { role: "img", "aria-label": "Rates over time" }),
      element("div.chart.freshness-chart", { role: "img", "aria-label": "Freshness over time" }),
      element("div.below-charts"),
      element("p.chart-note.quiet", {}, "loading …"),
    );
    this.#feed = startFeed(
      () => getFigures("api/history", { pipeline: this.#name, span }),
      pause,
      (history) => {
        this.#history = history;
        this.#draw();
      },
      (error) => this.#note(error.message),
    );
  }

  #end() {
    this.#feed?.stop();
    this.#forgetCharts();
    this.#history = null;
  }

  #spanButtons() {
    const buttons = SPANS.map((each) =>
      element("button", { type: "button", "data-span": each.span, "aria-pressed": String(each === this.#span) }, each.label));
    const group = element("div.spans", { role: "group", "aria-label": "Time span of the charts" }, buttons);
    group.addEventListener("click", ({ target }) => {
      const chosen = SPANS.find(({ span }) => span === target.dataset.span);
      if (!chosen || chosen === this.#span) return;
      this.#span = chosen;
      this.#end();
      this.#begin();
      this.#place.querySelector(`[data-span="${chosen.span}"]`).focus();
    });
    return group;
  }

  #draw() {
    const history = this.#history;
    const isEmpty = !history.at.length;
    this.#note(isEmpty ? "Nothing has arrived in this time." : `One point is ${stepWords(history.step_seconds)}.`);
    if (isEmpty) return;
    if (!this.#charts.length) {
      this.#charts = [
        ratesChart(this.#place.querySelector(".rates"), this.#name),
        freshnessChart(this.#place.querySelector(".freshness-chart"), this.#name),
      ];
    }
    const aimed = { ...history, target_ms: this.#targetMilliseconds };
    const marks = markedBetween(this.#events, history.at[0], Date.now() / 1000);
    this.#charts.forEach((chart) => chart.setHistory(aimed, marks));
    morphChildren(this.#place.querySelector(".below-charts"), element("div", {}, markLegend(marks), distribution(aimed)));
  }

  #forgetCharts() {
    this.#charts.forEach((chart) => chart.destroy());
    this.#charts = [];
  }

  #note(words) {
    const note = this.#place?.querySelector(".chart-note");
    if (note && note.textContent !== words) note.textContent = words;
  }
}

const stepWords = (seconds) => (seconds < 60 ? `${seconds} s` : `${seconds / 60} min`);
