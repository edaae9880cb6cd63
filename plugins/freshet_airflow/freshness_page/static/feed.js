// Asks again and again, and tells what came. Pauses while the page is hidden.

/**
 * @param {() => Promise} ask one request.
 * @param {number} pauseMilliseconds between an answer and the next request.
 * @param {(answer) => void} came
 * @param {(error) => void} failed
 * @returns {{askNow: () => void, stop: () => void}}
 */
export function startFeed(ask, pauseMilliseconds, came, failed) {
  let timer = null;
  let round = 0; // answers of an earlier round are late: they are left out

  async function go() {
    clearTimeout(timer);
    const mine = ++round;
    try {
      const answer = await ask();
      if (mine === round) came(answer);
    } catch (error) {
      if (mine === round) failed(error);
    }
    if (mine === round && !document.hidden) timer = setTimeout(go, pauseMilliseconds);
  }

  function visibilityChanged() {
    if (document.hidden) clearTimeout(timer);
    else go();
  }

  document.addEventListener("visibilitychange", visibilityChanged);
  go();
  return {
    askNow: go,
    stop() {
      round += 1;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visibilityChanged);
    },
  };
}
