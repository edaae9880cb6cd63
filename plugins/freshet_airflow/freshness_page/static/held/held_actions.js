// What can be done with the held tuples that the filter shows: runs of DAGs, with what it says as their form.

import { runButton } from "../actions/run_buttons.js";
import { element } from "../dom/element.js";
import { count } from "../numbers.js";
import { REJECTED, SHED, WAITING } from "./places.js";

/**
 * Buttons for the tuples of an answer.
 * @param {{groups: object[], forgettable: number, read_at: string}} found
 * @param {object} chosen what it answers: {places, reason, text, since}.
 */
export function heldActions(pipeline, { groups, forgettable, read_at: readAt }, chosen, dags) {
  const sum = (fits, what = "tuples") => groups.filter(fits).reduce((all, group) => all + group[what], 0);
  const waiting = sum(({ place }) => WAITING.includes(place));
  const rejected = (what) => sum(({ place }) => place === REJECTED, what);
  const hopeful = rejected("tuples") - rejected("hopeless") - rejected("unjoined");
  const all = sum(() => true);
  const named = {
    ...(chosen.text && { text: chosen.text }),
    ...(chosen.since && { arrived_from: chosen.since }),
  };
  const reason = chosen.reason && { reason: chosen.reason };
  return element("div.buttons", { role: "group", "aria-label": "Actions on the tuples shown" },
    runButton("Retry", dags?.reprocess_shed, {
      parameters: { places: chosen.places.filter((place) => WAITING.includes(place)), all_unmatched: true, ...named, ...reason },
      forbidden: waiting ? null : "No shed or unmatched tuple is shown.",
    }),
    runButton("Requeue", dags?.reprocess_shed, {
      parameters: { places: [SHED], requeue: chosen.reason, ...named },
      question: `${count(hopeful)} rejected tuples of ${pipeline} are tried again. Mend first what refused them.`,
      forbidden: whyNotRequeue(hopeful, chosen),
    }),
    runButton("Forget", dags?.forget_held, {
      parameters: { places: chosen.places, ...named, ...reason, until: readAt },
      question: `${count(forgettable)} tuples of ${pipeline} (${chosen.places.join(", ")}${described(chosen)}) are deleted for good: they will not `
        + "become facts, and are duplicates if they are sent again. Your name is noted.",
      forbidden: whyNotForget(forgettable, dags?.forget_held),
    }),
    element("span.quiet", {}, `${count(all)} shown: retry those that wait, requeue those that were rejected, or forget them all.`));
}

function whyNotRequeue(hopeful, { reason }) {
  if (!hopeful) return "No rejected tuple is shown that a new try could make a fact.";
  return reason ? null : "Choose a reason first: those that were rejected for others stay.";
}

function whyNotForget(forgettable, dag) {
  if (dag?.paused) return `${dag.dag_id} is paused: its run would wait, and delete later. Unpause it first.`;
  return forgettable ? null : "No tuple is shown that no open batch holds.";
}

const described = ({ reason, text }) =>
  `${reason && `; reason contains “${reason}”`}${text && `; record contains “${text}”`}`;
