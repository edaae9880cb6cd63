// What a pipeline's figures mean: the words for its state, what is wrong with it, and how bad that is.

import { SHED, SHOWN } from "./held/places.js";
import { age, bytes, count } from "./numbers.js";

/** State -> what it means. */
export const STATE_WORDS = {
  starting: "The driver is getting ready; nothing is loaded yet.",
  running: "The driver loads what arrives.",
  idle: "All that has landed is loaded, and nothing arrives.",
  late: "What has landed has waited unread for longer than the target.",
  overloaded: "More arrives than can be joined in time: tuples are shed, or facts get late.",
  rejecting: "Half of the newest tuples, or more, were rejected or unmatched: they are kept, and become no facts.",
  "catching up": "The driver is loading what waited for it to start; facts are late until it is done.",
  blocked: "The driver is alive and retrying, but something other than the events keeps it from loading them. It resumes by itself once that is fixed.",
  draining: "The driver loads what has landed, then stops.",
  stopped: "Nothing is loaded: the stream was drained, or was never started.",
  restarting: "The driver has ended and a new one is starting. Events that arrive meanwhile wait in the source.",
  down: "The driver failed, fell silent, or never came up. Nothing is loaded until one is started.",
};

const SEVERITY_OF_STATE = {
  down: 0, blocked: 0, rejecting: 0, restarting: 1, overloaded: 2, late: 2, "catching up": 3, starting: 4, draining: 4, running: 6, idle: 6, stopped: 7,
};

/** Which restart it is, in words. */
export const tries = ({ number, most }) => `try ${number} of ${most}`;

/** Whether the warehouse is further behind the events than it is to be. */
export const isLate = (status) => status.freshness_now_ms > status.target_ms;

/** How many files, partitions, or both are unread; "unknown" where nobody looks any more, and it did not end by itself. */
export function unreadFiles({ state, lag }) {
  if (!lag.oldest_unread) return !lag.at_least ? "none" : state === "stopped" && lag.looked_at ? "none at its end" : "unknown";
  const plural = lag.unread_files === 1 ? "" : "s";
  let kind = lag.partitions?.length ? `partition${plural}` : `file${plural}`;
  // Of several streams, one may be a folder.
  if (lag.partitions?.some(({ partition }) => partition.includes("/"))) kind = `file${plural} or ${kind}`;
  return `${lag.at_least ? "at least " : ""}${count(lag.unread_files)} ${kind}`;
}

/** What has landed and is unread, in words. */
export function unread(status) {
  const { lag } = status;
  if (lag.oldest_unread) return `${unreadFiles(status)} (${bytes(lag.unread_bytes)}), the oldest for ${age(lag.oldest_unread_age_ms)}`;
  return lag.at_least && lag.looked_at && status.state !== "stopped" ? `unknown for ${age(lag.look_age_ms)}` : unreadFiles(status);
}

/** The places that an event may be in, by the ledger: [[name, count]]. */
export const places = (status) =>
  ["loaded", ...SHOWN, "pruned"].map((place) => [place, countIn(status, place)]);

/** How many events are in a place. What was requeued is held as what was shed is, for its next try; nothing shed it. */
export const countIn = (status, place) => (place === SHED ? status.shed - (status.requeued ?? 0) : status[place] ?? 0);

/** Whether the ledger counts less than nothing in a place: more has left it than ever came. It adds up even then. */
export const isLedgerDamaged = (status) => places(status).some(([, count]) => count < 0);

/** What was not loaded of the source, in words; null if all was. */
export function filesNotLoaded({ files_not_loaded: files }) {
  if (!files?.newest) return null;
  const counts = [[files.set_aside, "file", "set aside"], [files.lost, "range", "lost"]].filter(([count]) => count);
  const told = counts.map(([count, what, how]) => `${count} ${what}${count === 1 ? "" : "s"} ${how}`);
  return `${told.join(", ")}; the newest: ${files.newest}`;
}

/** What is wrong, worst first: [{severity, text}]; severity 0 is the worst. */
export function problems(status) {
  const found = [];
  const note = (severity, text) => found.push({ severity, text });
  if (status.state === "down") note(0, status.error ?? silence(status));
  if (status.restart) note(1, `${tries(status.restart)}: ${status.error}`);
  if (status.state === "blocked") note(0, `blocked: ${status.blocked_by}`);
  if (isLedgerDamaged(status)) note(1, "the ledger is damaged: a place has a negative count");
  if (status.unaccounted) note(0, `${status.unaccounted} events arrived and are in no place`);
  if (filesNotLoaded(status)) note(3, filesNotLoaded(status));
  if (status.state === "rejecting") note(0, status.overload_reason);
  if (status.state === "overloaded") note(2, status.overload_reason ?? "overloaded");
  if (status.state === "late") note(2, status.overload_reason);
  if (status.state === "catching up") note(3, status.overload_reason);
  if (status.state === "stopped" && status.lag.oldest_unread) note(5, `unread: ${unread(status)}`);
  if (status.episode) note(...told(status));
  if (isLate(status) && !found.length) note(3, "later than its target");
  if (["failed", "error"].includes(status.validation?.result)) note(3, "validation failed");
  if (status.reprocessing?.state === "failed") note(4, "reprocessing failed");
  for (const cache of status.caches ?? []) {
    if (cache.refused) note(4, `a cache version of ${cache.relation} was refused`);
    else if (cache.staleness_ms > cache.notice_changes_ms) note(4, `changes of ${cache.relation} have not been noticed yet`);
  }
  return found.sort((one, other) => one.severity - other.severity);
}

// What is well again keeps its alert for a while; by then its reason is one of the past.
const told = ({ state, episode }) => (["running", "idle"].includes(state)
  ? [5, `an alert is open still; when it began: ${episode.reason}`]
  : [2, `alert: ${episode.reason}`]);

const silence = (status) =>
  (status.start_wanted_at ? "it was started, but no driver has come up" : "the driver has fallen silent");

/** The overview's order: worst first, equals by name. */
export function worstFirst(statuses) {
  const rank = (status) => Math.min(SEVERITY_OF_STATE[status.state] ?? 5, problems(status)[0]?.severity ?? 9);
  return [...statuses]
    .map((status) => ({ status, rank: rank(status) }))
    .sort((one, other) => one.rank - other.rank || one.status.name.localeCompare(other.status.name))
    .map(({ status }) => status);
}
