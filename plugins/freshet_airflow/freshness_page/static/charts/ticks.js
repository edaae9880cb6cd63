// Round durations for a logarithmic axis, in milliseconds.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const FINE = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE,
  5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 24 * HOUR,
];
const COARSE = [1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR];
const MOST = 6;

/** The smallest range between round durations that holds these. */
export function roundRange(least, most) {
  const below = FINE.findLast((tick) => tick < least) ?? FINE[0];
  const above = FINE.find((tick) => tick > most) ?? FINE.at(-1);
  return [below, above];
}

/** The round durations of a range: as fine as leaves them apart. */
export function roundTicks(least, most) {
  const within = (ticks) => ticks.filter((tick) => tick >= least && tick <= most);
  return within(FINE).length > MOST ? within(COARSE) : within(FINE);
}
