// The tuple's law: each event that arrived is in exactly one place.

import { element } from "../dom/element.js";
import { meaningOf } from "../figures.js";
import { filesNotLoaded, isLedgerDamaged, places } from "../health.js";
import { REJECTED, SHED, UNMATCHED } from "../held/places.js";
import { count, share } from "../numbers.js";
import { explained, panel } from "./parts.js";

const WORDS = {
  loaded: ["Facts", "Joined and stored in the fact table."],
  [SHED]: ["Shed"],
  requeued: ["Requeued", "Rejected once, or made of events that came late: they wait for their next try; reprocess_shed makes it."],
  [UNMATCHED]: ["Unmatched"],
  [REJECTED]: ["Rejected", "Bad input, kept with its reason."],
  pruned: ["Pruned", "Held once, and deleted: their retention was over, or they were forgotten."],
};

const IF_ANY = new Set(["requeued", "pruned"]);

export function balance(status) {
  const shown = places(status).filter(([place, number]) => !IF_ANY.has(place) || number);
  if (status.streams?.length) return ofStreams(status, shown);
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

// A fact is made of several events, and an event may be in several facts: their counts are no parts of one sum.
function ofStreams(status, shown) {
  const waiting = status.streams.reduce((sum, each) => sum + each.waiting, 0);
  const title = explained("Balance", "Facts are made of events of several streams. Each event that arrived is in facts, waits, or is held; freshet verify proves it stream by stream.");
  return panel("balance", title,
    element("table.balance", {}, element("tbody", {},
      element("tr.total", {}, element("th", { scope: "row" }, "Events that arrived"), element("td.number", {}, count(status.arrived))),
      element("tr", {}, element("th", { scope: "row" }, "Events that wait"), element("td.number", {}, count(waiting))),
      shown.filter(([place, number]) => place === "loaded" || number).map(([place, number]) => line(place, number)))),
    verdict(status),
    files(status),
    element("p.quiet", {}, `${count(status.batches)} batches; ${count(status.duplicates)} duplicates were left out.`));
}

function line(place, number, sign, arrived) {
  const [name, meaning = meaningOf(`backlog_${place}`)] = WORDS[place];
  return element("tr", {},
    element("th", { scope: "row" }, sign ? element("span.sign", { "aria-hidden": "true" }, sign) : null,
      element(`span.swatch.place-${place}`, { "aria-hidden": "true" }), explained(name, meaning)),
    element("td.number", {}, count(number)),
    sign ? element("td.number.quiet", {}, arrived ? share(number / arrived) : "") : null);
}

function verdict(status) {
  const command = element("code", {}, `freshet verify ${status.name}`);
  if (isLedgerDamaged(status)) {
    return element("p.late", {}, "A place has a negative count: the ledger is damaged. ", command, " names the events that differ.");
  }
  return status.unaccounted
    ? element("p.late", {}, `${count(status.unaccounted)} events arrived and are in no place. `, command, " names them.")
    : element("p", {}, status.streams?.length ? "No event of a stream is missing, by the ledger; " : "What was read and what is stored add up; ",
      command, " proves it event by event.");
}

function files(status) {
  const told = filesNotLoaded(status);
  return told && element("p.late", {}, `${told}. `, element("code", {}, `freshet source ${status.name}`), " shows them, and has them read again.");
}
