"""Theory of the semi-stream joins: what each costs, how to tune it, which to choose. Pure: no clock, no disk, no state.

| what                                     | module                          | from                                  |
|------------------------------------------|---------------------------------|---------------------------------------|
| seconds of disk and processor            | disk_costs, processor_costs     | 000 Table 1                           |
| R, memory and costs together             | setting                         | 000 Table 1                           |
| popularity of keys and pages             | stream_popularity, popularity   | 000 §5, 003 §4.2: stream probability  |
| Zipf's law by integral                   | zipf_ranks                      | 000 Fig. 7                            |
| HYBRIDJOIN: w, stay, service rate        | hybrid_join_model               | 000 §4.4, eq. (1) to (4); w is ours   |
| the same, longest wait first             | longest_wait_model              | ours                                  |
| MESHJOIN, R-MESHJOIN, waiting time       | mesh_join_model                 | 000 §3, 003 §3.1                      |
| INLJ, and with batched lookups           | index_nested_loop_model         | 000 §3                                |
| SSIJ                                     | semi_streamed_index_join_model  | 003 §2; the model is ours             |
| the partition-based join                 | partition_wait_model            | 000 §2, 003 §2; the model is ours     |
| front stage: what it learns and finds    | front_stage_model, poisson      | 003 §3; the model is ours             |
| all of the catalogue, with or without it | prediction, back_stage          | 000 eq. (3), (4)                      |
| a stream slower than the join            | arrival_rate                    | 000 §3: processing and waiting time   |
| best disk buffer, best front stage       | tuning, root                    | 000 §4.5, 003 §5.4                    |
| Zipf exponent from observed frequencies  | skew_estimate                   | ours                                  |
| the algorithm for a stream that goes on  | choice                          | ours                                  |
| the algorithm for one batch              | batch_choice                    | ours                                  |
| fewest page loads a stream needs         | clairvoyant_bound               | ours                                  |

A model is a function of a setting and a stream's popularity, any popularity: Zipf's, or as counted.
"""
