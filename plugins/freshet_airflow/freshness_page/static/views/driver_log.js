// The end of the driver's log, read while it is open.

import { element } from "../dom/element.js";
import { startFeed } from "../feed.js";
import { getFigures } from "../host/requests.js";

const PAUSE = 5000;

export class DriverLog {
  #name = null;
  #place = null;
  #feed = null;

  /** Offer the log of this pipeline's driver, or none. */
  show(name) {
    const place = document.getElementById("driver-log");
    if (name === this.#name && place === this.#place) return;
    this.#feed?.stop();
    this.#name = name;
    this.#place = place;
    if (place) this.#begin();
  }

  #begin() {
    const lines = element("pre.log", { tabindex: "0", "aria-label": "End of the driver's log" });
    const log = element("details", {}, element("summary", {}, "The end of its log"), lines);
    const tell = (text) => {
      if (lines.textContent === text) return;
      lines.textContent = text;
      lines.scrollTop = lines.scrollHeight;
    };
    log.addEventListener("toggle", () => {
      this.#feed?.stop();
      if (!log.open) return;
      this.#feed = startFeed(
        () => getFigures("api/log", { pipeline: this.#name }),
        PAUSE,
        (answer) => tell(answer.lines.join("\n")),
        (error) => tell(error.status === 404 ? "Shown to users who may read the logs of the DAG's tasks." : error.message),
      );
    });
    this.#place.replaceChildren(log);
  }
}
