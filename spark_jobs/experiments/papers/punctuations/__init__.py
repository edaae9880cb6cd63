"""The figures of 001, second part: PJoin beside XJoin."""
