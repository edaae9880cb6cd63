// Buttons that start a DAG run at once, with the session of the user who presses them.

import { element } from "../dom/element.js";
import { airflowAddress } from "../host/airflow.js";
import { getFigures, runState, startRun } from "../host/requests.js";
import { explanation } from "../views/parts.js";
import { ask } from "./question.js";

const MESSAGE_MILLISECONDS = 20000;
const FOLLOW_PAUSE = 3000;
const FOLLOWED_AT_MOST = 10 * 60000;
const ENDED = { success: "has finished", failed: "has failed" };

/**
 * A button that starts a run.
 * @param {string} label
 * @param {object|undefined} dag what the server tells of the DAG: {dag_id, exists, paused, may_run}.
 * @param {{parameters?: object, question?: string, forbidden?: string|null}} options
 *   parameters of the run; a question to be asked first; why there is nothing to be done now.
 */
export function runButton(label, dag, { parameters = {}, question = null, forbidden = null } = {}) {
  const reason = whyNot(dag) ?? forbidden;
  const attributes = {
    type: "button",
    "data-key": `run-${label}`,
    "data-dag": dag?.dag_id,
    "data-deed": label,
    "data-parameters": JSON.stringify(parameters),
    "data-question": question,
    // Not `disabled`: that would take the focus away, and with it the reason.
    "aria-disabled": reason ? "true" : null,
    title: reason ? null : `Starts a run of ${dag.dag_id}`,
  };
  return element(reason ? "button.explained" : "button", attributes, label, reason && explanation(reason));
}

/** Why a run of the DAG can't be started from here; null if it can. */
export function whyNot(dag) {
  if (!dag) return "Checking with Airflow whether you may do this …";
  if (!dag.exists) return `Airflow has no DAG ${dag.dag_id}, or you may not read it.`;
  if (!dag.may_run) return "You can look but not act: ask for permission to run DAGs.";
  return null;
}

/** Link to the page of a DAG, where its trigger form is. */
export function dagLink(dag, text) {
  if (!dag?.exists) return null;
  const address = airflowAddress(`dags/${encodeURIComponent(dag.dag_id)}`);
  return element("a", { href: address, title: `${dag.dag_id}: its Trigger button shows the form` }, text);
}

/** Start a run whenever such a button is pressed; say how it went, and tell `changed` when it began and ended. */
export function listenToRunButtons(changed) {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-dag]");
    if (!button || button.ariaDisabled === "true") return;
    const { dag, deed, parameters, question } = button.dataset;
    if (question && !(await ask(deed, question))) return;
    await run(dag, JSON.parse(parameters), changed);
  });
}

async function run(dagId, parameters, changed) {
  try {
    const runId = await startRun(dagId, parameters);
    changed();
    const address = airflowAddress(`dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`);
    const words = element("span", {}, `Started ${dagId}. `);
    await follow(dagId, runId, words, tell("good", words, element("a", { href: address }, "See the run")), changed);
  } catch (error) {
    tell("bad", `${dagId} was not started. ${error.message}`);
  }
}

// While its message is open, tell what becomes of a run, and at its end what it did.
async function follow(dagId, runId, words, message, changed) {
  const until = Date.now() + FOLLOWED_AT_MOST;
  let former = null;
  while (message.isConnected && Date.now() < until && !ENDED[former]) {
    await new Promise((passed) => setTimeout(passed, FOLLOW_PAUSE));
    const state = await runState(dagId, runId).catch(() => former);
    if (state === former || !message.isConnected) continue;
    former = state;
    words.textContent = `${dagId} ${ENDED[state] ?? `is ${state}`}${ENDED[state] ? await whatItDid(dagId, runId) : ""}. `;
    if (state === "failed") message.className = "message bad";
    if (ENDED[state]) changed();
  }
  if (former !== "failed") setTimeout(() => message.remove(), MESSAGE_MILLISECONDS);
}

async function whatItDid(dagId, runId) {
  const pipeline = dagId.slice(dagId.indexOf("__") + 2);
  const { events } = await getFigures("api/events", { pipeline }).catch(() => ({ events: [] }));
  const did = events.filter((event) => event.airflow_run === runId).map(({ detail }) => detail);
  return did.length ? `: ${did.reverse().join("; ")}` : "";
}

function tell(kind, ...words) {
  const close = element("button.quiet", { type: "button", "aria-label": "Close this message" }, "×");
  const message = element(`p.message.${kind}`, {}, element("span", {}, words), close);
  close.addEventListener("click", () => message.remove());
  document.getElementById("messages").append(message);
  return message;
}
