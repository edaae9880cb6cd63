// The Spark driver that loads the stream.

import { element } from "../dom/element.js";
import { ago, clock, count } from "../numbers.js";
import { explained, facts, panel } from "./parts.js";

export function driver(status, events) {
  const failure = events?.find(({ kind, error }) => kind === "end" && error);
  return panel("driver", "Driver",
    status.epoch
      ? facts([
        [explained("Epoch", "Counts the drivers of this pipeline; an older one can't write any more."), count(status.epoch)],
        ["Last heartbeat", ago(status.heartbeat_age_ms)],
        ["Last commit", status.last_commit ? clock(status.last_commit) : "none yet"],
        ["Log", status.log_file && element("code.path", {}, status.log_file)],
        ["Spark", sparkLink(status.spark_ui_url)],
        ["Last error", failure ? element("span", { class: status.error ? "late" : null }, `${clock(failure.began_at)}: ${failure.error}`) : null],
      ])
      : element("p.quiet", {}, "No driver has ever loaded this pipeline."),
    element("div", { id: "driver-log", "data-keep": "true" }));
}

// The address comes from the warehouse: only one that a browser would open as a page becomes a link.
function sparkLink(address) {
  if (!/^https?:\/\//.test(address ?? "")) return null;
  return element("a", { href: address, target: "_blank" }, "Spark's own page");
}
