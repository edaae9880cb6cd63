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
        r"tests/faults/test_driver_faults\.py::(?!test_driver_killed_in_the_middle\w+\[folder)",
        r"tests/faults/test_spark_gone\.py",
        r"tests/faults/test_correlated_streams_faults\.py",
        r"tests/spark/test_kafka_stream\.py::test_a_broker_that_is_killed",
        r"tests/workload/test_topics\.py::test_events_are_written_once_though_the_broker_is_killed",
        r"tests/reprocessing/test_runs_at_once\.py::test_a_run_killed_half_way",
    ),
    # Grids of which README's tests run one case; the same guarantees on further sources, shapes and platforms; whole
    # platforms, whose parts README's tests try one by one.
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
        r"tests/columns/test_copy_encoding\.py::test_decimals\[(?!15-2|18-18|38-10)",
        r"tests/stages/test_warm_up_types\.py::test_tuples_match_whatever\w+\[(?!int8-bigint|text-string)",
        # The platform of `freshet up` as a whole, and the page's figures, which other tests read from the same table.
        "tests/acceptance/",
        r"tests/browser/test_figures",
        r"tests/authoring/test_tutorial",
        r"tests/local/test_(kept_server|bad_day|embedded_postgres|warehouse_users)",
        "tests/compose/",
        "tests/monitoring/test_prometheus",
        r"tests/test_wheel\.py",
        r"tests/test_cli\.py::test_the_installed_command",
        r"tests/workload/test_(tpch|order_stream|topics)",
        # DAGs of jobs that are tested without Airflow, too; what goes wrong with a run, beyond a driver that dies.
        r"tests/airflow/test_(rebuild|validate|reprocess)_dag",
        r"tests/airflow/test_stream_load_dag\.py::(?!test_a_dead_driver)",
        r"tests/airflow/test_alerts\.py::test_(without_connections|begin_and_end)",
        # On Spark: further shapes, sources, lookups. What is left loads each shape once, and a topic.
        r"tests/spark/test_(correlated_proof|relation_watch|rebuild_cache|as_of|corrected_definition|state_rebuilding)",
        r"tests/spark/test_(pinned_tasks|copy_reading|records_read_like_spark|names_that_come_again|shared_driver)",
        r"tests/spark/test_(standalone_cluster|submitted_settings|least_privilege|whole_relation|page_renewal|warm_up)",
        r"tests/spark/test_(read_limit|completeness|hot_tuples)",
        r"tests/spark/test_correlated_streams\.py::(?!test_facts_are_the_plain_join)",
        r"tests/spark/test_accumulating_streams\.py::(?!test_facts_are_the_plain_join)",
        r"tests/spark/test_kafka_stream\.py::(?!test_what_is_in_a_topic_is_loaded_once)",
        r"tests/spark/test_poison\.py::(?!test_one_record_costs_itself)",
        r"tests/spark/test_blocked_stream\.py::(?!test_a_blocked_stream_keeps_its_batch)",
        r"tests/spark/test_source_losses\.py::(?!test_\w*(gone|lost|away))",
        # The proof of further shapes, of changes of R, and against naive counts.
        r"tests/proof/test_(ranges|changes|as_of|property|accumulated|operations|outer_join|stream_join)",
        r"tests/reprocessing/test_(late_tuples|chunk_failure|due_tuples|runs_at_once|ending)",
        r"tests/lookup/changes/test_(unnoticed|noted_since)",
        r"tests/lookup/hot_keys/test_crashed_server",
        r"tests/lookup/local_copy/",
        r"tests/lookup/relation/test_(versioned_relation|versions|catalog)",
        r"tests/control/test_cluster",
        r"tests/validation/test_command",
        r"tests/ledger/test_batch_ledger\.py::test_counts_are_exact",
        r"tests/source/test_(hostile_literals|kafka_consumer)",
        r"tests/source/test_kafka_topic\.py::test_a_log_that_was_cut",
        r"tests/stages/test_poison_search",
        r"tests/launch/test_low_priority\.py",
        # Algorithms and structures against oracles, and the cost models; what pipelines run has to conform always.
        r"tests/joins/semi_stream/(theory/|test_load_shedding)",
        r"tests/joins/structures/test_hashed_streams",
        "tests/property/",
        r"tests/join_state/test_(punctuated_bucket|bucket_versions)",
    ),
}


def tier(nodeid: str) -> str | None:
    """The mark of a test; None: README's command runs it."""
    return next((mark for mark, places in TIERS.items() for place in places if re.match(place, nodeid)), None)
