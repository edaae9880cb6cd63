// Which algorithm makes each lookup, and why.

import { element } from "../dom/element.js";
import { panel } from "./parts.js";

export function lookups(status) {
  const made = status.lookups ?? [];
  return panel("lookups", "Algorithm and why", made.length ? made.map(lookup) : element("p.quiet", {}, "No batch has chosen one yet."));
}

const lookup = (told) =>
  element("div.lookup", {},
    element("p", {}, element("strong", {}, told.relation), " by ", element("code", {}, told.algorithm ?? "–")),
    told.reason ? element("p.quiet", {}, told.reason) : null);
