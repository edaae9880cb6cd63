// Small parts that several views are made of.

import { element } from "../dom/element.js";

/** A panel of the detail: a heading and what stands below it. */
export const panel = (key, title, ...content) =>
  element(`section.panel.${key}`, { "data-key": key, "aria-labelledby": `title-${key}` },
    element("h3", { id: `title-${key}` }, title), content);

/** Words with an explanation that shows on hover and on focus, see explanations.js. */
export const explained = (words, meaning) => element("span.explained", { tabindex: "0" }, words, explanation(meaning));

/** The explanation of the element with the class `explained` that it stands in. */
export const explanation = (meaning) =>
  element("span.explanation.visually-hidden", { "data-meaning": meaning }, `: ${meaning}`);

/** Pairs of a term and its value; pairs whose value is null are left out. */
export const facts = (pairs) =>
  element("dl.facts", {}, pairs
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([term, value]) => element("div", {}, element("dt", {}, term), element("dd", {}, value))));

/** A state as a coloured word. */
export const badge = (word, look = word) => element(`span.badge.state-${look.replaceAll(" ", "-")}`, {}, word);

/** The state of a piece of work. One that runs has come to nothing yet: it must not look like one that passed. */
export const workBadge = (word) => badge(word, word === "running" ? "at work" : word);
