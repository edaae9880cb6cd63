"""Which tests README's command leaves to `.ci/run`, and under which mark: each guards what another test guards, too, or
what no pipeline runs."""

from __future__ import annotations

import re

# A test has the first mark of which a pattern fits the beginning of its id.
TIERS = {
    # Oldest supported PostgreSQL: what the newest is asked, once more.
    "compat": ("tests/oldest_postgres/",),
    # Figures of the papers and benchmarks, and joins and sketches that run in these alone.
    "figures": (
        "tests/experiments/",
        r"tests/conformance/test_stream_stream\.py::\w+\[(?!temporal_join)",
        r"tests/joins/stream_stream/(?!test_temporal_join|test_windows)",
        "tests/joins/structures/test_(bit_vector_table|sorted_runs)",
        "tests/property/test_joins_(mesh_structures|multi_way|sort_based|theorems)",
        "tests/sketches/test_(join_size|skimmed)",
    ),
    # The page beyond what it is there for: figures that are right, a stream that is in trouble first, an action, its
    # charts, who may see it, and text of others.
    "browser": (
        r"tests/browser/test_page\.py::(?!test_(its_numbers_are|a_stream_that_rejects|a_button_starts|names_and_errors"
        r"|charts_are_drawn_in_the_theme_of_airflow\[dark))",
    ),
    # A driver, a worker, a server that is killed: each once in README's tests, here on topics and in more places.
    "faults": (
        r"tests/faults/test_driver_faults\.py::\w+\[topic",
        r"tests/faults/test_driver_faults\.py::test_a_driver_that_is_fenced_in_the_middle",
        r"tests/faults/test_driver_faults\.py::test_what_a_batch_has_committed_before_the_server_crashes",
        r"tests/faults/test_spark_gone\.py",
        r"tests/faults/test_correlated_streams_faults\.py",
        r"tests/spark/test_kafka_stream\.py::test_a_broker_that_is_killed",
        r"tests/workload/test_topics\.py::test_events_are_written_once_though_the_broker_is_killed",
        r"tests/reprocessing/test_runs_at_once\.py::test_a_run_killed_half_way",
    ),
    # Grids of which README's tests run one case, and the same guarantees on further sources, shapes and platforms.
    "thorough": (
        # Grids: other algorithms, types and sizes.
        r"tests/conformance/test_semi_stream\.py::\w+\[(?!cached_hybrid_join)",
        r"tests/conformance/test_stream_stream\.py::\w+\[temporal_join-(?!equality)",
        r"tests/spark/test_stream_job\.py::test_every_algorithm_loads_the_plain_join\[(?!auto)",
        r"tests/spark/test_stream_job\.py::test_an_algorithm_that_reads_pages_refuses\w+\[(?!mesh_join)",
        r"tests/reprocessing/test_reprocessing\.py::test_the_algorithm_of_the_request\w+\[(?!auto)",
        r"tests/reprocessing/test_reprocessing\.py::test_the_rule_for_keys\w+\[(?!reject)",
        r"tests/reprocessing/test_reprocessing\.py::test_a_payload_that_cannot_be_read_back\w+\[(?!no base64)",
        r"tests/lookup/relation/test_joins_with_postgres\.py::\w+\[(?!cached_hybrid_join)",
        r"tests/lookup/local_copy/test_local_copy\.py::test_algorithms_join_with_it\w+\[(?!by_number-hybrid_join)",
        r"tests/join_state/test_punctuated_bucket\.py::test_what_is_purged\w+\[(?!composite-40000-sliding-unique)",
        r"tests/columns/test_copy_encoding\.py::test_decimals\[(?!15-2|18-18|38-10)",
        r"tests/stages/test_warm_up_types\.py::test_tuples_match_whatever\w+\[(?!int8-bigint|text-string)",
        r"tests/source/test_hostile_literals\.py::\w+\[csv",
        # The cost models, compared with runs: `auto` asks those that test_prediction compares.
        r"tests/joins/semi_stream/theory/test_(tuning|longest_wait_model|hybrid_join_model|arrival_rate)",
        r"tests/property/test_joins_shedding\.py::test_the_longest_wait_is_no_worse",
        # Further sources and shapes.
        r"tests/authoring/test_tutorial\.py::test_a_reader_with_a_topic",
        r"tests/spark/test_kafka_stream\.py::test_(a_topic_is_joined|avro_of_a_registry|parts_of_a_fact|records_of_ten)",
        r"tests/spark/test_poison\.py::test_one_record_of_(a_topic|several_streams)",
        r"tests/spark/test_correlated_streams\.py::test_(streams_match_by_a_band|three_streams)",
        r"tests/spark/test_correlated_proof\.py::test_auctions_that_end",
        r"tests/spark/test_state_rebuilding\.py::test_a_lost_or_damaged_state",
        r"tests/spark/test_state_rebuilding\.py::test_what_punctuations_have_purged\w+\[(?!marked)",
        r"tests/spark/test_shared_driver\.py::test_one_that_",
        r"tests/spark/test_as_of\.py::test_(versions_with_text|defaults_stand_in)",
        r"tests/spark/test_relation_watch\.py::test_a_(driver_that_may_not|relation_without)",
        r"tests/spark/test_blocked_stream\.py::test_a_blocked_stream_that_is_to_drain",
        r"tests/spark/test_read_limit\.py::test_an_overloaded_stream",
        r"tests/source/test_kafka_topic\.py::test_a_log_that_was_cut",
        r"tests/source/test_kafka_consumer\.py",
        # What goes wrong with a DAG's run, beyond a driver that dies and one that falls silent.
        r"tests/airflow/test_reprocess_dag\.py::test_(times_that|the_job_gets|a_job_that_fails|a_run_that_is_killed|what_the)",
        r"tests/airflow/test_stream_load_dag\.py::test_a_driver_that_(fails_again|is_refused)",
        r"tests/airflow/test_stream_load_dag\.py::test_(restart_drains|a_second_start|a_task_that_starts_over)",
        r"tests/airflow/test_validate_dag\.py::test_(what_was_loaded_is_validated|a_spoilt|an_outage)",
        # Mains that a DAG's test starts, too; clusters, containers and wheels.
        r"tests/spark/test_rebuild_cache\.py::test_the_job_exits",
        r"tests/reprocessing/test_runs_at_once\.py::test_(the_main_ends|a_run_that_is_asked)",
        r"tests/validation/test_command\.py::test_a_process_of_its_own",
        r"tests/spark/test_standalone_cluster\.py::test_two_executors",
        r"tests/spark/test_submitted_settings\.py",
        r"tests/spark/test_warm_up\.py::test_a_worker_that_is_warmed_up",
        r"tests/launch/test_low_priority\.py",
        r"tests/compose/test_compose_commands\.py::test_(two_streams|spark_master)",
        r"tests/workload/test_order_stream\.py::test_a_reader_never_sees",
        r"tests/test_wheel\.py",
    ),
}


def tier(nodeid: str) -> str | None:
    """The mark of a test; None: README's command runs it."""
    return next((mark for mark, places in TIERS.items() for place in places if re.match(place, nodeid)), None)
