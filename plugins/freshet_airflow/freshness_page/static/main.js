// Starts the page: asks for the figures every two seconds and renders them.

import { listenToRunButtons } from "./actions/run_buttons.js";
import { Glance } from "./charts/glance.js";
import { HistoryCharts } from "./charts/history_charts.js";
import { startFeed } from "./feed.js";
import { learnFigures } from "./figures.js";
import { HeldExplorer } from "./held/held_explorer.js";
import { followLinksInHost } from "./host/airflow.js";
import { choosePipeline, chosenPipeline, dagOfTab, followChoice } from "./host/chosen_pipeline.js";
import { getFigures } from "./host/requests.js";
import { followTheme } from "./host/theme.js";
import { announceChanges } from "./views/announcement.js";
import { showDetail } from "./views/detail.js";
import { DriverLog } from "./views/driver_log.js";
import { showExplanations } from "./views/explanations.js";
import { showLiveness } from "./views/liveness.js";
import { listenToHeadings, showOverview } from "./views/overview.js";

const STATUS_PAUSE = 2000;
const RIGHTS_PAUSE = 15000;
const EVENTS_PAUSE = 5000;

const charts = new HistoryCharts();
const glance = new Glance();
const held = new HeldExplorer();
const driverLog = new DriverLog();
const page = { pipelines: null, cameAt: null, error: null };
let known = unknown(); // of the chosen pipeline
let feeds = [];

function render() {
  showLiveness(page);
  if (!page.pipelines) return;
  const name = chosenPipeline();
  if (!dagOfTab) showOverview(page.pipelines, name);
  showDetail(page.pipelines, name, known);
  glance.show(name || dagOfTab ? [] : page.pipelines);
  const status = page.pipelines.find((each) => each.name === name);
  charts.show(name, status, known.events);
  held.show(name, status, known.dags);
  driverLog.show(name);
}

function figuresCame({ pipelines, ...table }) {
  learnFigures(table);
  announceChanges(page.pipelines, pipelines);
  Object.assign(page, { pipelines, cameAt: Date.now(), error: null });
  render();
}

function figuresFailed(error) {
  page.error = error;
  render();
}

function unknown() {
  return { dags: null, events: null, objective: null, filled: null };
}

function learn(path, pause, name) {
  const about = known;
  return startFeed(
    () => getFigures(path, { pipeline: name }),
    pause,
    (told) => {
      Object.assign(about, told);
      render();
    },
    () => {}, // what is known stays; the figures' feed tells what is wrong
  );
}

function choiceChanged() {
  known = unknown();
  feeds.forEach((feed) => feed.stop());
  const name = chosenPipeline();
  feeds = name ? [learn("api/dags", RIGHTS_PAUSE, name), learn("api/events", EVENTS_PAUSE, name)] : [];
  render();
  if (name && !dagOfTab) document.getElementById("detail-heading")?.focus();
}

document.body.classList.toggle("in-tab", dagOfTab !== null);
followTheme(() => {
  charts.redraw();
  glance.redraw();
});
followLinksInHost();
showExplanations();
followChoice(choiceChanged);
const figures = startFeed(() => getFigures("api/status"), STATUS_PAUSE, figuresCame, figuresFailed);
listenToRunButtons(() => {
  figures.askNow();
  feeds.forEach((feed) => feed.askNow());
});
for (const id of ["filter", "group"]) document.getElementById(id).addEventListener("input", render);
listenToHeadings(render);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosenPipeline() && !document.querySelector("dialog[open]")) choosePipeline(null);
});
setInterval(() => showLiveness(page), 1000);
choiceChanged();
