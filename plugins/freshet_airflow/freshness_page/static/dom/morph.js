// Makes what is on the page look like what was newly rendered, by changing only what differs:
// no flicker, and focus, selection, scroll positions and open menus stay.
//
// Children are matched by data-key where they have one, else by their place. An element with data-keep belongs to
// other code (a chart): once it is there, its inside is left alone.

/** Make the children of `shown` equal to those of `wanted`, which is used up. */
export function morphChildren(shown, wanted) {
  const keyed = new Map([...shown.children].filter((child) => child.dataset.key).map((child) => [child.dataset.key, child]));
  let place = shown.firstChild;
  for (const child of [...wanted.childNodes]) {
    const match = counterpart(child, place, keyed);
    if (!match) {
      shown.insertBefore(child, place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    else shown.insertBefore(match, place);
    morph(match, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function counterpart(child, place, keyed) {
  const key = child.dataset?.key;
  if (key) {
    const match = keyed.get(key);
    return match?.nodeName === child.nodeName ? match : null;
  }
  const fits = place && !place.dataset?.key && place.nodeName === child.nodeName;
  return fits ? place : null;
}

function morph(shown, wanted) {
  if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== wanted.data) shown.data = wanted.data;
    return;
  }
  morphAttributes(shown, wanted);
  if (!wanted.hasAttribute("data-keep")) morphChildren(shown, wanted);
}

// Styles are set otherwise, see element.js; whether something is open is the reader's business.
const LEFT_ALONE = new Set(["style", "open"]);

function morphAttributes(shown, wanted) {
  for (const name of shown.getAttributeNames()) {
    if (!LEFT_ALONE.has(name) && !wanted.hasAttribute(name)) shown.removeAttribute(name);
  }
  for (const name of wanted.getAttributeNames()) {
    const value = wanted.getAttribute(name);
    if (!LEFT_ALONE.has(name) && shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  if (!wanted.hasAttribute("data-keep") && shown.style.cssText !== wanted.style.cssText) {
    shown.style.cssText = wanted.style.cssText;
  }
}
