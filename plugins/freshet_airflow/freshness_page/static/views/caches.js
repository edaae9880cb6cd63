// The front stage of each lookup: what it holds, how stale it may be, and when it was rebuilt.

import { dagLink, runButton } from "../actions/run_buttons.js";
import { element } from "../dom/element.js";
import { ago, count, duration, since } from "../numbers.js";
import { explained, facts, panel } from "./parts.js";

const WATCHED = {
  triggers: ["by triggers", "Triggers on the relation record each change; the driver reads what is new."],
  rereading: ["by rereading", "No triggers record all changes, so all hot tuples are reread regularly."],
  nothing: ["not at all", "Hot tuples keep their values until the cache is rebuilt or the driver restarted."],
};

export function caches(status, dags) {
  const held = status.caches ?? [];
  return panel("caches", "Caches",
    held.length ? held.map(cache) : element("p.quiet", {}, "No driver has reported a cache yet."),
    element("div.buttons", {},
      runButton("Rebuild now", dags?.rebuild_cache), dagLink(dags?.rebuild_cache, "with a form")));
}

function cache(told) {
  const stale = told.staleness_ms > told.notice_changes_ms;
  const [watched, meaning] = WATCHED[told.watched] ?? [told.watched, ""];
  return element("div.cache", { "data-key": `cache-${told.lookup}` },
    element("h4", {}, told.relation),
    facts([
      [explained("Staleness", "Age of the oldest change of the relation that has not reached the front stage."),
        element("span", { class: stale ? "late" : null }, `${told.staleness_ms ? duration(told.staleness_ms) : "none"} (limit ${duration(told.notice_changes_ms)})`)],
      ["Hot tuples", `${count(told.hot_tuples)}${told.version ? ` (version ${told.version}, ${told.origin})` : ""}`],
      ["Rebuilt", told.rebuilt_at ? ago(since(told.rebuilt_at)) : "never"],
      ["Snapshot", told.snapshot_at ? `version ${told.snapshot_version}, ${ago(since(told.snapshot_at))}` : null],
      ["Changes noticed", explained(watched, meaning)],
    ]),
    told.refused ? element("p.late", {}, `A newer version was refused: ${told.refused}`) : null);
}
