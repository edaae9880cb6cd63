// Where tuples are held that are not facts: each place, with what it means.

export const [SHED, UNMATCHED, REJECTED] = ["shed", "unmatched", "rejected"];
export const PLACES = [SHED, UNMATCHED, REJECTED];
/** Those whose tuples reprocessing tries again. */
export const WAITING = [SHED, UNMATCHED];
/** Held as what was shed is, for its next try, and counted apart: nothing shed it. */
export const REQUEUED = "requeued";
export const SHOWN = [SHED, REQUEUED, UNMATCHED, REJECTED];

export const MEANINGS = {
  [SHED]: "Put off under overload.",
  [REQUEUED]: "Rejected once, or made of events that came late: they wait for their next try.",
  [UNMATCHED]: "Their key is not in the master data yet.",
  [REJECTED]: "Bad input, or refused by the table: see why below.",
};
