// Whether the figures are live; when they are not, says why, how old they are, and greys them.

import { element } from "../dom/element.js";
import { morphChildren } from "../dom/morph.js";
import { age } from "../numbers.js";

const banner = document.getElementById("banner");
const liveness = document.getElementById("liveness");
const figures = document.getElementById("figures");

/** @param {{cameAt: number|null, error: Error|null}} page when figures came last, and what went wrong since. */
export function showLiveness({ cameAt, error }) {
  figures.classList.toggle("outdated", error !== null);
  const old = cameAt && age(Date.now() - cameAt);
  const state = error ? (old ? `${old} old` : "no figures") : cameAt ? "live" : "loading …";
  morphChildren(liveness, element("p", {},
    element(`span.dot${error ? ".bad" : cameAt ? ".good" : ""}`, { "aria-hidden": "true" }), state));
  morphChildren(banner, element("div", {}, error && trouble(error, old)));
}

function trouble(error, old) {
  const title = {
    0: "Airflow does not answer",
    401: "Logged out",
    503: "The warehouse is away",
  }[error.status] ?? "No figures are available";
  return element("div.banner.bad", {},
    element("strong", {}, title),
    element("p", {}, error.message),
    element("p", {}, old ? "Below are the last known figures. The page keeps trying." : "The page keeps trying."));
}
