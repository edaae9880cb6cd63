// Builds elements. Text is always text: nothing here reads markup, so data can't become any.

// What turns the direction of writing, and characters that are not shown: they would forge the text around them.
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const code = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
const shown = (child) => (typeof child === "string" ? child.replace(STEERING, code) : child);

const SVG_TAGS = new Set(["svg", "path", "circle"]);

/**
 * An element.
 * @param {string} tag its name, with classes after dots: "p.hint.quiet".
 * @param {object} [attributes] null, undefined and false leave one out, true leaves it empty;
 *   `style` is an object of CSS properties.
 * @param {...(Node|string|number|null|Array)} children null and false leave one out.
 */
export function element(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = SVG_TAGS.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    // One by one: the page's policy forbids style attributes.
    if (key === "style") Object.entries(value).forEach(([property, text]) => made.style.setProperty(property, text));
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(shown));
  return made;
}
