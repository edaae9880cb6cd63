// Tells a screen reader what has changed, and only that.

const place = document.getElementById("announcement");

/** Announce pipelines whose state differs from that of the former figures, which are null at first. */
export function announceChanges(former, current) {
  if (!former) return;
  const states = new Map(former.map(({ name, state }) => [name, state]));
  const changed = current.filter(({ name, state }) => states.has(name) && states.get(name) !== state);
  if (changed.length) place.textContent = changed.map(({ name, state }) => `${name} is now ${state}.`).join(" ");
}
