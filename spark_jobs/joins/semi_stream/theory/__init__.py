"""Theory of the semi-stream joins: what each costs, how to tune it, which to choose. Pure: no clock, no disk, no state.

| what                                     | module                          | from                                  |
|------------------------------------------|---------------------------------|---------------------------------------|
| R, memory, costs of disk and processor   | setting                         | 000 Table 1                           |
| popularity of keys and pages             | popularity                      | 000 §5, 003 §4.2: stream probability  |
| HYBRIDJOIN: w, stay, service rate        | hybrid_join_model               | 000 §4.4, eq. (1) to (4); w is ours   |
| MESHJOIN, R-MESHJOIN, waiting time       | mesh_join_model                 | 000 §3, 003 §3.1                      |
| INLJ, and with batched lookups           | index_nested_loop_model         | 000 §3                                |
| SSIJ                                     | semi_streamed_index_join_model  | 003 §2; the model is ours             |
| the partition-based join                 | partition_wait_model            | 000 §2, 003 §2; the model is ours     |
| front stage: what it learns and finds    | front_stage_model               | 003 §3; the model is ours             |
| all of the catalogue, with or without it | prediction                      | 000 eq. (3), (4)                      |
| best disk buffer, best front stage       | tuning, root                    | 000 §4.5, 003 §5.4                    |
| Zipf exponent from observed frequencies  | skew_estimate                   | ours                                  |
| the algorithm for a stream that goes on  | choice                          | ours; a slow stream: 000 §3           |
| the algorithm for one batch              | batch_choice                    | ours                                  |
| fewest page loads a stream needs         | clairvoyant_bound               | ours                                  |

A model is a function of a setting and a stream's popularity, any popularity: Zipf's, or as counted.
"""
