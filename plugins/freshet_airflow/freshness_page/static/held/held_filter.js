// The form that chooses among held tuples.

import { element } from "../dom/element.js";
import { PLACES } from "./places.js";

const TYPING_PAUSE = 400;
const TIMES = [["", "at any time"], ["3600", "in the last hour"], ["86400", "in the last day"], ["604800", "in the last week"]];

/** The form; it tells when something else is chosen. */
export function heldFilter(changed) {
  const form = element("form.held-filter", { "aria-label": "Which held tuples" },
    element("fieldset", {}, element("legend.visually-hidden", {}, "Places"), PLACES.map((place) =>
      element("label", {}, element("input", { type: "checkbox", name: "place", value: place, checked: true }), place))),
    field("Reason contains", element("input", { type: "search", name: "reason", maxlength: 1000, autocomplete: "off", spellcheck: "false" })),
    field("Record contains", element("input", { type: "search", name: "text", maxlength: 1000, autocomplete: "off", spellcheck: "false" })),
    field("Arrived", element("select", { name: "since" }, TIMES.map(([value, words]) => element("option", { value }, words)))));
  let timer = null;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(changed, TYPING_PAUSE);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    changed();
  });
  return form;
}

const field = (words, input) => element("label", {}, words, " ", input);

/** The places that are chosen; all where none is. */
export function chosenPlaces(form) {
  const chosen = [...form.querySelectorAll("[name=place]:checked")].map(({ value }) => value);
  return chosen.length ? chosen : PLACES;
}

/** Have the form choose this: {place, reason, text}; what is not named stays. */
export function showFilter(form, { place, reason, text }) {
  if (place) form.querySelectorAll("[name=place]").forEach((box) => { box.checked = box.value === place; });
  if (reason !== undefined) form.elements.reason.value = reason;
  if (text !== undefined) form.elements.text.value = text;
}
