// Starts the page: asks for the figures every two seconds and renders them.

import { listenToRunButtons } from "./actions/run_buttons.js";
import { Glance } from "./charts/glance.js";
import { HistoryCharts } from "./charts/history_charts.js";
import { startFeed } from "./feed.js";
import { HeldExplorer } from "./held/held_explorer.js";
import { followLinksInHost } from "./host/airflow.js";
import { choosePipeline, chosenPipeline, dagOfTab, followChoice } from "./host/chosen_pipeline.js";
import { getFigures } from "./host/requests.js";
import { followTheme } from "./host/theme.js";
import { announceChanges } from "./views/announcement.js";
import { showDetail } from "./views/detail.js";
import { showExplanations } from "./views/explanations.js";
import { showLiveness } from "./views/liveness.js";
import { showOverview } from "./views/overview.js";

const STATUS_PAUSE = 2000;
const RIGHTS_PAUSE = 15000;

const charts = new HistoryCharts();
const glance = new Glance();
const held = new HeldExplorer();
const page = { pipelines: null, cameAt: null, error: null, dags: null };
let rightsFeed = null;

function render() {
  showLiveness(page);
  if (!page.pipelines) return;
  const name = chosenPipeline();
  if (!dagOfTab) showOverview(page.pipelines, name);
  showDetail(page.pipelines, name, page.dags);
  glance.show(name || dagOfTab ? [] : page.pipelines);
  const status = page.pipelines.find((each) => each.name === name);
  charts.show(name, status);
  held.show(name, status, page.dags);
}

function figuresCame({ pipelines }) {
  announceChanges(page.pipelines, pipelines);
  Object.assign(page, { pipelines, cameAt: Date.now(), error: null });
  render();
}

function figuresFailed(error) {
  page.error = error;
  render();
}

function choiceChanged() {
  page.dags = null;
  rightsFeed?.stop();
  const name = chosenPipeline();
  if (name) {
    rightsFeed = startFeed(
      () => getFigures("api/dags", { pipeline: name }),
      RIGHTS_PAUSE,
      ({ dags }) => {
        page.dags = dags;
        render();
      },
      () => {}, // without rights the buttons stay as they are; the figures' feed tells what is wrong
    );
  }
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
  rightsFeed?.askNow();
});
document.getElementById("filter").addEventListener("input", render);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosenPipeline() && !document.querySelector("dialog[open]")) choosePipeline(null);
});
setInterval(() => showLiveness(page), 1000);
choiceChanged();
