// Numbers with their units, as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ONE_PLACE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const TWO_PLACES = new Intl.NumberFormat("en", { maximumFractionDigits: 2, roundingMode: "floor" });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

const UNITS = ["B", "KB", "MB", "GB", "TB"];

export const NOTHING = "–";

const known = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));

/** 1234567 -> "1,234,567". */
export const count = (value) => (known(value) ? WHOLE.format(value) : NOTHING);

/** 1234567 -> "1.23M", 950 -> "950". */
export const shortCount = (value) => (known(value) ? (Math.abs(value) < 10000 ? WHOLE : COMPACT).format(value) : NOTHING);

/** "950/s", "2.5/s". */
export function rate(perSecond) {
  if (!known(perSecond)) return NOTHING;
  if (perSecond > 0 && perSecond < 0.1) return "< 0.1/s";
  return `${perSecond < 10 ? ONE_PLACE.format(perSecond) : shortCount(Math.round(perSecond))}/s`;
}

/** 0.931 -> "93.1 %". */
export function share(fraction) {
  if (!known(fraction)) return NOTHING;
  if (fraction > 0 && fraction < 0.001) return "< 0.1 %";
  return `${ONE_PLACE.format(fraction * 100)} %`;
}

/** 0.99996 -> "99.99 %": what is promised is not rounded up. */
export const promised = (fraction) => `${TWO_PLACES.format(fraction * 100)} %`;

/** 940 -> "940 ms", 12340 -> "12.3 s", 125000 -> "2 min 5 s". */
export function duration(milliseconds) {
  if (!known(milliseconds)) return NOTHING;
  if (milliseconds < 999.5) return `${WHOLE.format(Math.max(0, milliseconds))} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(2).replace(/\.?0+$/, "")} s`;
  if (seconds < 99.5) return `${ONE_PLACE.format(seconds)} s`;
  return longDuration(Math.round(seconds));
}

const DAY = 86400000;

/** How late facts are, like a duration; beyond a day nobody counts. */
export const lateBy = (milliseconds) => (known(milliseconds) && milliseconds >= DAY ? "over 24 h" : duration(milliseconds));

/** 3500000 -> "3.34 MB", as PostgreSQL and the terminal count. */
export function bytes(size) {
  if (!known(size)) return NOTHING;
  let unit = 0;
  for (; size >= 1000 && unit < UNITS.length - 1; unit += 1) size /= 1024;
  return `${Number(size.toPrecision(3))} ${UNITS[unit]}`;
}

/** How long ago, coarsely: "3 s ago", "2 h 5 min ago". */
export const ago = (milliseconds) => (known(milliseconds) ? `${age(milliseconds)} ago` : NOTHING);

/** Like a duration, in whole seconds: ages don't need more. */
export function age(milliseconds) {
  if (!known(milliseconds)) return NOTHING;
  return longDuration(Math.max(0, Math.round(milliseconds / 1000)));
}

/** Milliseconds since a moment given as ISO text; null for null. */
export const since = (moment, now = Date.now()) => (moment ? now - Date.parse(moment) : null);

/** A moment in the reader's own time zone. */
export function clock(moment) {
  if (!moment) return NOTHING;
  const at = new Date(moment);
  const sameDay = at.toDateString() === new Date().toDateString();
  const day = sameDay ? {} : { day: "numeric", month: "short" };
  return at.toLocaleString([], { ...day, hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

function longDuration(seconds) {
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, "min", seconds % 60, "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return pair(hours, "h", minutes % 60, "min");
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

const pair = (large, largeUnit, small, smallUnit) =>
  small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
