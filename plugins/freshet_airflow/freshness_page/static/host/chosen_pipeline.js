// Which pipeline is looked at: told by the address, so that a link can lead to it and a reload finds it again.

import { hostDocument, isFramed } from "./airflow.js";

// As the files of dags/ name their DAGs.
const DAG_OF_PIPELINE = /^(?:stream_load|reprocess_shed|forget_held|rebuild_cache|validate_facts)__(.+)$/;

/** The DAG whose tab this page is; null in the navigation. */
export const dagOfTab = new URLSearchParams(window.location.search).get("dag");

/** The pipeline of the DAG whose tab this page is; null if it belongs to none. */
export const pipelineOfTab = dagOfTab?.match(DAG_OF_PIPELINE)?.[1] ?? null;

/** Name of the chosen pipeline; null for the overview. */
export function chosenPipeline() {
  if (dagOfTab) return pipelineOfTab;
  return decoded(window.location.hash.slice(1)) || null;
}

// An address that was cut off in the middle of a character names nothing.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** Choose a pipeline, or none. */
export function choosePipeline(name) {
  window.location.hash = name ? encodeURIComponent(name) : "";
}

/** Tell whenever another one is chosen, and keep the address of Airflow's page in step. */
export function followChoice(changed) {
  takeOverFromHost();
  window.addEventListener("hashchange", () => {
    tellHost();
    changed();
  });
}

// Airflow hands its address's fragment to the frame only where the frame's path stands in it too.
function takeOverFromHost() {
  if (dagOfTab || !isFramed() || window.location.hash) return;
  const { hash } = hostDocument().location;
  if (hash) window.history.replaceState(null, "", hash);
}

function tellHost() {
  if (dagOfTab || !isFramed()) return;
  const host = hostDocument().defaultView;
  host.history.replaceState(host.history.state, "", `${host.location.pathname}${host.location.search}${window.location.hash}`);
}
