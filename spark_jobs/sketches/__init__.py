"""Sketches: how large the join of two streams is, from a few kilobytes each. The catalogue.

| class        | source               | error of a join, in s counters a row             | work a tuple                |
|--------------|----------------------|--------------------------------------------------|-----------------------------|
| AgmsSketch   | AGMS99               | sqrt(F2 G2 / s)                                  | every counter               |
| HashSketch   | CCF02, 001 §4        | the same                                         | one counter a table         |
| Skimmed      | 001 §4               | the same, of what is left without dense values   | that of its hash sketch     |
| DyadicSketch | 001 §4, CM03         | none: finds the dense values of a large domain   | one counter a table, level  |

F2 and G2 are the streams' self-join sizes, the sums of their squared frequencies. All sketches are linear: deletes are
updates with negative weights, and the sketch of two streams is the sum of theirs, so that tasks and hosts sketch what
they see and add. `agms`, `hash_sketch`, `skimmed` and `dyadic_sketch` have these
classes; `linear_sketch` adds, subtracts, and makes bytes; `join_size` estimates, with a bound beside each
estimate; `polynomial_hash` has the hash functions; `error_model` tells from the frequencies what error to expect.

AGMS99: Alon, Gibbons, Matias, Szegedy, Tracking Join and Self-Join Sizes in Limited Storage, PODS 1999. CCF02:
Charikar, Chen, Farach-Colton, Finding Frequent Items in Data Streams, ICALP 2002. CM03: Cormode, Muthukrishnan, What's
Hot and What's Not, PODS 2003. 001: Ganguly, Garofalakis, Rastogi, Processing Data-Stream Join Aggregates Using Skimmed
Sketches, EDBT 2004.

`id_sketch` is a hash sketch of event ids: the ledger keeps one of what arrived, and validations compare it with what is
stored.

This room knows arrays and nothing else, as `joins` does: no engine, no database, no network, no clock.
"""
