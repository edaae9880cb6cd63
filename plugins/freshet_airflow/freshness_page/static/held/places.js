// Where tuples are held that are not facts: each place, with what it means.

export const [SHED, UNMATCHED, REJECTED] = ["shed", "unmatched", "rejected"];
export const PLACES = [SHED, UNMATCHED, REJECTED];
/** Those whose tuples reprocessing tries again. */
export const WAITING = [SHED, UNMATCHED];

export const MEANINGS = {
  [SHED]: "Put off under overload.",
  [UNMATCHED]: "Their key is not in the master data yet.",
  [REJECTED]: "Bad input, or refused by the table: see why below.",
};
