// Shows the explanation of whatever is pointed at or focused, beside it and within the window.

import { element } from "../dom/element.js";

const GAP = 6;
const shown = element("div.floating-explanation", { "aria-hidden": "true", hidden: true });
let explained = null;

/** Watch the whole document. Screen readers find the explanations in their places. */
export function showExplanations() {
  document.body.append(shown);
  for (const begin of ["pointerover", "focusin"]) document.addEventListener(begin, ({ target }) => show(target));
  document.addEventListener("scroll", hide, true);
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
}

function show(target) {
  const wanted = target.closest?.(".explained") ?? null;
  if (wanted === explained) return;
  hide();
  if (!wanted) return;
  explained = wanted;
  shown.textContent = wanted.querySelector(".explanation").dataset.meaning;
  shown.hidden = false;
  const place = wanted.getBoundingClientRect();
  const size = shown.getBoundingClientRect();
  const isRoomBelow = place.bottom + GAP + size.height < window.innerHeight;
  const left = Math.min(place.left, document.documentElement.clientWidth - size.width - GAP);
  shown.style.left = `${Math.max(GAP, left)}px`;
  shown.style.top = `${isRoomBelow ? place.bottom + GAP : place.top - GAP - size.height}px`;
}

function hide() {
  explained = null;
  shown.hidden = true;
}
