// The tuple's law: each event that arrived is in exactly one place.

import { element } from "../dom/element.js";
import { filesNotLoaded, isLedgerDamaged, places } from "../health.js";
import { count, share } from "../numbers.js";
import { explained, panel } from "./parts.js";

const WORDS = {
  loaded: ["Facts", "Joined and stored in the fact table."],
  shed: ["Shed", "Put off under overload; reprocess_shed loads them."],
  unmatched: ["Unmatched", "Their key is not in the master data yet."],
  rejected: ["Rejected", "Bad input, kept with its reason."],
  pruned: ["Pruned", "Held once, and deleted: their retention was over, or they were forgotten."],
};

export function balance(status) {
  const shown = places(status).filter(([place, number]) => place !== "pruned" || number);
  const title = explained("Balance", "Every event that arrived is in exactly one place. Events are counted when files are read, and again when they are stored.");
  return panel("balance", title,
    element("table.balance", {}, element("tbody", {},
      element("tr.total", {}, element("th", { scope: "row" }, "Arrived"),
        element("td.number", {}, count(status.arrived)), element("td")),
      shown.map(([place, number], index) => line(place, number, index ? "+" : "=", status.arrived)))),
    verdict(status),
    files(status),
    element("p.quiet", {}, `${count(status.batches)} batches; ${count(status.duplicates)} duplicates were left out.`));
}

function line(place, number, sign, arrived) {
  const [name, meaning] = WORDS[place];
  return element("tr", {},
    element("th", { scope: "row" }, element("span.sign", { "aria-hidden": "true" }, sign),
      element(`span.swatch.place-${place}`, { "aria-hidden": "true" }), explained(name, meaning)),
    element("td.number", {}, count(number)),
    element("td.number.quiet", {}, arrived ? share(number / arrived) : ""));
}

function verdict(status) {
  const command = element("code", {}, `freshet verify ${status.name}`);
  if (isLedgerDamaged(status)) {
    return element("p.late", {}, "A place has a negative count: the ledger is damaged. ", command, " names the events that differ.");
  }
  return status.unaccounted
    ? element("p.late", {}, `${count(status.unaccounted)} events arrived and are in no place. `, command, " names them.")
    : element("p", {}, "What was read and what is stored add up; ", command, " proves it event by event.");
}

function files(status) {
  const told = filesNotLoaded(status);
  return told && element("p.late", {}, `${told}. `, element("code", {}, `freshet source ${status.name}`), " shows them, and has them read again.");
}
