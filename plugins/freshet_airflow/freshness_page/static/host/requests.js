// Requests to this page's application and to Airflow's API, with the session of the logged-in user.

import { airflowAddress, pageAddress } from "./airflow.js";

/** An answer that is no success: `status` is 0 where there was none at all. */
export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Figures of the page's application, as an object. */
export const getFigures = (path, parameters = {}) =>
  send(`${pageAddress(path)}?${new URLSearchParams(parameters)}`, {});

/** Start a run of a DAG with these parameters; returns its id. Airflow decides whether the user may. */
export async function startRun(dagId, parameters) {
  const run = await send(airflowAddress(`api/v2/dags/${encodeURIComponent(dagId)}/dagRuns`), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ logical_date: null, conf: parameters }),
  });
  return run.dag_run_id;
}

/** State of a run: queued, running, success, failed. */
export const runState = async (dagId, runId) =>
  (await send(airflowAddress(`api/v2/dags/${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}`), {})).state;

async function send(address, options) {
  let response;
  try {
    response = await fetch(address, { ...options, credentials: "same-origin", signal: AbortSignal.timeout(15000) });
  } catch {
    throw new RequestError(0, "Airflow does not answer. Check that its API server runs.");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new RequestError(response.status, words(response.status, answer.detail));
}

function words(status, detail) {
  if (status === 401) return "Your session has ended. Reload Airflow's page and log in again.";
  if (status === 403) return "You can look at this but not act on it.";
  return typeof detail === "string" ? detail : `Airflow answered with an error (${status}).`;
}
