// Everything about one pipeline.

import { dagLink, runButton, whyNot } from "../actions/run_buttons.js";
import { element } from "../dom/element.js";
import { morphChildren } from "../dom/morph.js";
import { dagOfTab, pipelineOfTab } from "../host/chosen_pipeline.js";
import { STATE_WORDS, tries } from "../health.js";
import { since, age } from "../numbers.js";
import { backlogs } from "./backlogs.js";
import { balance } from "./balance.js";
import { caches } from "./caches.js";
import { driver } from "./driver.js";
import { happened } from "./happened.js";
import { freshness } from "./freshness.js";
import { lookups } from "./lookups.js";
import { badge, panel } from "./parts.js";
import { partitions } from "./partitions.js";
import { stages } from "./stages.js";
import { streams } from "./streams.js";
import { validation } from "./validation.js";

const place = document.getElementById("detail");

/**
 * @param {object[]} statuses of all pipelines.
 * @param {string|null} name of the chosen one.
 * @param {{dags: object|null, events: object[]|null, objective: object|null, filled: object|null}} known its DAGs by kind,
 *   what has happened to it, how often its target was kept, how complete its facts are; null while that is not known.
 */
export function showDetail(statuses, name, known) {
  const status = statuses.find((each) => each.name === name);
  const content = status ? detail(status, known) : dagOfTab || name ? notFound(name) : null;
  morphChildren(place, element("div", {}, content));
}

function notFound(name) {
  const text = dagOfTab && !pipelineOfTab
    ? `The DAG ${dagOfTab} belongs to no pipeline: there is nothing to show here.`
    : `The warehouse knows no pipeline ${name} yet. It appears here once its driver has started for the first time.`;
  return element("div.empty", {}, element("p", {}, text));
}

function detail(status, { dags, events, objective, filled }) {
  return element("article.pipeline", { "data-key": `pipeline-${status.name}` },
    heading(status, dags),
    alerts(status),
    element("div.panels", {},
      freshness(status, objective),
      panel("history", "Over time", element("div", { id: "charts", "data-keep": "true" })),
      stages(status),
      streams(status, filled),
      partitions(status),
      balance(status),
      backlogs(status, dags),
      validation(status, dags),
      panel("held", "Held tuples", element("div", { id: "held", "data-keep": "true" })),
      caches(status, dags),
      lookups(status),
      driver(status, events),
      happened(status, events)));
}

function heading(status, dags) {
  const stream = dags?.stream_load;
  const ended = ["stopped", "down"].includes(status.state);
  // Whether the driver that was started last will come is not known yet.
  const lives = !ended && !["starting", "restarting"].includes(status.state);
  return element("header.detail-header", {},
    element("h2", { id: "detail-heading", tabindex: "-1" }, status.name),
    badge(status.state),
    status.restart && element("span.quiet", {}, tries(status.restart)),
    element("p.state-words", {}, STATE_WORDS[status.state] ?? ""),
    element("div.buttons", { role: "group", "aria-label": "Actions on the stream" },
      runButton("Start", stream, {
        parameters: { action: "start" },
        forbidden: lives ? "It is already running." : null,
      }),
      runButton("Drain", stream, {
        parameters: { action: "drain" },
        question: `The driver of ${status.name} loads what has landed, then stops. Nothing is loaded until it is started again.`,
        forbidden: ended ? "Nothing is running that could be drained." : null,
      }),
      runButton("Restart", stream, {
        parameters: { action: "restart" },
        question: `The driver of ${status.name} is drained, then started again with the newest definition.`,
      }),
      dagOfTab === stream?.dag_id ? null : dagLink(stream, "DAG"),
      dagOfTab ? null : element("a.close", { href: "#", "aria-label": "Close the detail" }, "×")),
    stream && whyNot(stream) ? element("p.note", {}, whyNot(stream)) : null,
    stream?.paused ? element("p.note", {}, `${stream.dag_id} is paused: its runs wait until it is unpaused.`) : null);
}

function alerts(status) {
  const { episode } = status;
  const sent = episode?.alerted_at ? "It was told in the log of alert_freshness, and over the channels that are set up." : "No alert has been sent yet: the grace period is not over.";
  return [
    status.error && alert("bad", "The driver failed", status.error),
    status.blocked_by && alert("bad", `Blocked for ${age(since(status.blocked_since))}`, status.blocked_by),
    status.overload_reason && alert(status.state === "rejecting" ? "bad" : "warning", capitalized(status.state), status.overload_reason),
    episode && alert("warning", `An alert is open for ${age(since(episode.began_at))}`, `When it began: ${episode.reason}. ${sent}`),
  ];
}

const capitalized = (words) => words[0].toUpperCase() + words.slice(1);

function alert(kind, title, words) {
  return element(`p.banner.${kind}`, {}, element("strong", {}, `${title}: `), words);
}
