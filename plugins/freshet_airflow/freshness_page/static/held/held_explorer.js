// The explorer of held tuples: why they are held, which keys are missing, some of them; and what can be done with them.
// What the filter shows is what the buttons act on.

import { element } from "../dom/element.js";
import { morphChildren } from "../dom/morph.js";
import { startFeed } from "../feed.js";
import { getFigures } from "../host/requests.js";
import { clock } from "../numbers.js";
import { heldActions } from "./held_actions.js";
import { chosenPlaces, heldFilter, showFilter } from "./held_filter.js";
import { groupsTable, samplesList } from "./held_results.js";

const PAUSE = 10000;

export class HeldExplorer {
  #name = null;
  #place = null;
  #dags = null;
  #feed = null;
  #found = null;
  #filter = null;

  /** Show the explorer of this pipeline, or none; it reads while it is open. */
  show(name, status, dags) {
    const place = status ? document.getElementById("held") : null;
    if (name !== this.#name || place !== this.#place) {
      this.#close();
      this.#name = name;
      this.#place = place;
      if (place) this.#begin();
    }
    if (this.#dags !== dags) {
      this.#dags = dags;
      this.#draw();
    }
  }

  #begin() {
    this.#filter = heldFilter(() => this.#look());
    const results = element("div.held-results", { "aria-live": "off" });
    const explorer = element("details", {}, element("summary", {}, "Look into them"), this.#filter, results);
    explorer.addEventListener("toggle", () => (explorer.open ? this.#look() : this.#close()));
    results.addEventListener("click", ({ target }) => {
      const chosen = target.closest("[data-filter]");
      if (!chosen) return;
      showFilter(this.#filter, JSON.parse(chosen.dataset.filter));
      this.#look();
    });
    this.#place.replaceChildren(explorer);
  }

  #look() {
    this.#feed?.stop();
    this.#feed = startFeed(
      async () => {
        const chosen = this.#chosen();
        return { chosen, ...(await getFigures("api/held", this.#asked(chosen))) };
      },
      PAUSE,
      (found) => {
        this.#found = found;
        this.#draw();
      },
      (error) => this.#tell(error.status === 404 ? "Shown to users who may read the DAG that reprocesses them." : error.message),
    );
  }

  #chosen() {
    const { reason, text, since } = this.#filter.elements;
    return { places: chosenPlaces(this.#filter), reason: reason.value, text: text.value, since: since.value && startOf(since.value) };
  }

  #asked({ places, reason, text, since }) {
    const asked = [["pipeline", this.#name], ["reason", reason], ["text", text]];
    if (since) asked.push(["since", since]);
    return [...asked, ...places.map((place) => ["place", place])];
  }

  #draw() {
    if (!this.#found || !this.#place) return;
    // Not what the form says by now: the buttons act on what is shown.
    const { chosen, groups, samples, read_at: readAt } = this.#found;
    morphChildren(this.#place.querySelector(".held-results"), element("div", {},
      heldActions(this.#name, this.#found, chosen, this.#dags),
      groups.length ? groupsTable(groups) : element("p.quiet", {}, "No tuple that fits is held."),
      samples.length ? samplesList(samples) : null,
      element("p.quiet", {}, `As of ${clock(readAt)}.`)));
  }

  #tell(words) {
    morphChildren(this.#place.querySelector(".held-results"), element("div", {}, element("p.late", {}, words)));
  }

  #close() {
    this.#feed?.stop();
    this.#feed = null;
    this.#found = null;
  }
}

// To the minute: who looks again and again asks for the same.
const startOf = (seconds) => new Date(Math.floor(Date.now() / 60000) * 60000 - seconds * 1000).toISOString();
