// Light or dark: as Airflow's own page is, else as the browser prefers.

import { hostDocument, isFramed } from "./airflow.js";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** Take over the theme now and whenever it changes, and tell then. */
export function followTheme(changed) {
  const apply = () => {
    const theme = hostTheme() ?? (dark.matches ? "dark" : "light");
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    changed();
  };
  dark.addEventListener("change", apply);
  if (isFramed()) {
    new MutationObserver(apply).observe(hostDocument().documentElement, { attributeFilter: ["class"] });
  }
  apply();
}

function hostTheme() {
  if (!isFramed()) return null;
  const classes = hostDocument().documentElement.classList;
  return ["dark", "light"].find((theme) => classes.contains(theme)) ?? null;
}
