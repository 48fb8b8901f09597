"""Which cases of a test are tried in every run; the others are marked ``thorough``: ``pytest -m thorough`` runs them.

What stays has every distinct path through the code: each family of learners, each law of noise, each kind of guarantee,
and for each mechanism a case that fails with two thirds of its noise. What is left out repeats that over more cases.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

#: Learners as tests/support names them: a case of each family, and of what a family does in its own way.
FAMILIES = (
    "PIGD*",
    "NOGD",
    "DPFTRL blt",
    "DPFTRL tree",
    "DPFTRL batch",
    "DPFTRL window",
    "DPFTRL renewal",
    "AdaptiveFTRL classes",
    "PQFTL",
    "MIOGD",
    "LDPSGD",
    "BANCO",
    "MultiscaleSGD",
    "BanditMIOGD",
    "DOLA output",
    "SparseDOLA",
)
#: Fewer where a case takes long.
LEAKS = (
    "PIGD last", "DPFTRL blt", "DPFTRL window", "AdaptiveFTRL classes", "PQFTL", "MIOGD", "BANCO", "SparseDOLA",
)  # fmt: skip

#: By file and test: patterns of the cases that stay. Without a pattern the whole test is thorough.
KEPT: dict[str, dict[str, tuple[str, ...]]] = {
    "arena/test_arena.py": {
        "test_several_processes_give_the_results_of_one": (),
        "test_a_pure_rival_stays_within_the_budget_with_its_encoding": ("20.0-*",),
    },
    "audit/test_audit.py": {
        "test_no_bound_is_above_the_claim": (
            "pigd-*-4.0", "pgiga-*-4.0", "nogd-*-4.0", "prefix-*-4.0", "dpftrl-*-4.0", "pqftl-tree-*",
            "pqftl-blt-4.0", "pigd-replace-*", "nogd-replace-*", "prefix-tree-*", "dpftrl-blt-*",
        ),
        "test_published_noise_is_caught": ("pigd-*-1.0", "pgiga-*-1.0", "prefix-words2-*-4.0", "prefix-words3-*-0.5"),
        "test_correct_learners_pass_the_audit": ("PIGD", "NOGD", "PQFTL"),
        "test_two_thirds_of_the_noise_is_caught": (
            "pigd-*", "pgiga-*", "nogd-*", "prefix-*", "dpftrl-*", "pqftl-tree*", "pqftl-blt",
        ),
    },
    "audit/test_audit_harness.py": {
        "test_controls_of_a_library": (),
        "test_every_library_has_a_right_and_a_wrong_control": ("of_opendp", "of_opacus", "of_flower"),
    },
    "audit/test_audit_network.py": {
        "test_no_bound_is_above_the_claim": ("*-4.0-replace", "dola-gaussian-*", "sparse-dola-*"),
        "test_correct_learners_pass_the_audit": ("ball", "output", "privunit", "sparse"),
        "test_a_row_changes_one_term_of_the_whole_transcript": (
            "algorithm 1", "output", "implicit", "regularised", "sparse",
        ),
    },
    "audit/test_audit_offline.py": {
        "test_no_bound_is_above_the_claim": (
            "output-perturbation-replace-*", "objective-perturbation-zero_out-*", "pol-replace-*",
            "pol-uniform-3-4.0", "objective-perturbation-logistic-0.01-zero_out-4.0",
            "objective-perturbation-jmlr-1.0", "output-perturbation-logistic-0.01-0.5",
            "output-perturbation-1e-05-5.0-4.0", "pol-1e-05-4.0",
        ),
        "test_the_omission_in_the_slides_is_caught": ("1.0",),
        "test_the_ratio_is_one": ("output-*", "objective-perturbation-words1"),
        "test_correct_learners_pass_the_audit": ("POL",),
    },
    "audit/test_audit_programs.py": {
        "test_correct_programs_stand": (
            "laplace_sum-*", "laplace_sum_add_remove-domain2*", "gaussian_sum*", "geometric_count-domain4*", "mean*",
        ),
    },
    "audit/test_audit_reports.py": {
        "test_no_bound_is_above_the_claim": ("*-4.0-*", "miogd-*", "ldpsgd-privunit-*"),
        "test_correct_learners_pass_the_audit": ("replace-*",),
    },
    "audit/test_audit_users.py": {
        "test_the_worst_pattern_costs_what_is_calibrated": ("*-3-4", "*-4-128", "dpftrl-blt-*", "pigd-64-*"),
        "test_prefix_sums_cost_what_is_calibrated": ("*-3-4", "*-4-128", "tree-*"),
    },
    "calibration/test_calibration_objective.py": {
        "test_pure_noise_is_sufficient_and_tight": ("1.0-True-*", "7.0-False-*"),
        "test_several_outputs": ("True-2", "False-3"),
        "test_no_random_rows_exceed_epsilon": ("True-2", "False-3"),
        "test_gaussian_noise_is_enough": ("True-logistic", "False-huber", "True-smooth_hinge"),
    },
    "calibration/test_calibration_offline.py": {
        "test_no_neighbours_exceed_the_sensitivity": ("logistic-0", "smooth_hinge-0.2", "smooth_hinge-3", "[!ls]*"),
    },
    "calibration/test_many_releases.py": {
        "test_a_plan_of_any_length_is_calibrated": ("4503599627370496",),
    },
    "calibration/test_participation.py": {
        "test_every_central_learner_takes_a_users_budget": (
            "DPFTRL-{}", "*-{'re*", "[!D]*", "*tree*", "*discount*",
        ),
    },
    "calibration/test_sensitivity.py": {
        "test_search_stays_within_the_bound": ("*-2",),
    },
    "cli/test_cli_classes.py": {
        "test_run_and_predict": ("softmax",),
    },
    "cli/test_cli_encoding.py": {
        "test_a_cross_learns_what_only_both_columns_say": (),
        "test_a_killed_run_for_users_resumes": (),
        "test_a_killed_run_with_a_schema_share_resumes": (),
        "test_a_resumed_run_can_be_checked": (),
        "test_a_label_too_rare_to_be_learnt_does_not_end_the_run": ("learner1",),
        "test_targets_and_learners": ("real", "moments", "classes", "metrics"),
        "test_a_killed_run_with_a_learnt_schema_resumes": (),
    },
    "cli/test_cli_endings.py": {
        "test_interrupt": ("2",),
    },
    "cli/test_cli_failures.py": {
        "test_doubts_about_the_rows_are_shown_as_not_private": ("logistic-words3*", "huber-words4*"),
    },
    "cli/test_cli_horizon.py": {
        "test_a_release_far_into_a_file_whose_rows_are_not_counted_yet": ("2000,5000",),
    },
    "cli/test_cli_learners.py": {
        "test_every_learner_runs_with_diagnostics": ("pigd", "adaptive", "pqftl", "bandit", "banco", "sparse-dola"),
    },
    "cli/test_cli_offline.py": {
        "test_errors_in_the_targets_own_units": ("pqftl",),
        "test_the_embedded_rows": ("pol",),
    },
    "cli/test_cli_report.py": {
        "test_a_run_as_one_file": ("words1", "words2"),
    },
    "cli/test_cli_resume.py": {
        "test_an_interrupted_run_ends_as_if_nothing_had_happened": ("(?--private*", "(?--no-diagnostics?,)"),
        "test_killed": ("diagnostics",),
    },
    "cli/test_cli_workers.py": {
        "test_no_bit_depends_on_their_number": ("dpftrl",),
    },
    "core/test_c.py": {
        "test_threads_share_nothing_that_kernels_write": ("test_bits", "test_discrete", "test_outputs", "test_prefix"),
    },
    "core/test_forked_runs.py": {
        "test_a_child_reads_or_is_refused_while_a_thread_learns": ("PIGD-inf", "PQFTL-1.0"),
    },
    "core/test_invariance.py": {
        "test_layouts": ("pigd-logistic-*", "pgiga-squared-*", "pigd-box-*"),
    },
    "core/test_kernels.py": {
        "test_implicit_step": ("1.0-*",),
    },
    "core/test_objective.py": {
        "test_the_certificate_holds_and_is_tight": (
            "anywhere-*", "minimiser-*", "tiny rows-*", "far-logistic-0", "long rows-smooth*", "long rows-huber-1",
        ),
    },
    "distributed/test_parts.py": {
        "test_the_same_bits_in_any_number_of_threads": ("4-*",),
        "test_a_dask_worker_that_is_killed_in_an_online_run_is_replaced": ("steps",),
        "test_a_part_that_kills_every_worker_ends_the_fit": (),
    },
    "encoding/test_blocks.py": {
        "test_rows_do_not_depend_on_blocks_batches_or_threads": ("True-2", "False-5", "True-1"),
    },
    "encoding/test_encoder_audit.py": {
        "test_what_one_row_of_a_table_moves": ("labels-replace", "kinds-zero_out", "coarse-replace", "fine-zero_out"),
        "test_neighbours_are_as_distinguishable_as_charged": ("votes",),
        "test_a_wrong_sensitivity_is_detected": ("0.66*",),
    },
    "encoding/test_one_row.py": {
        "test_whole_rows": ("alone-markers", "crossed-plain"),
        "test_each_kind_of_column": ("*-markers", "wave-*", "odd-*"),
    },
    "encoding/test_transformer.py": {
        "test_checks": ("PrivateEncoder(epsilon=1*",),
    },
    "encoding/test_users_taught.py": {
        "test_encoding_and_model_are_within_one_budget": (
            "users0-*", "users2-*", "*-PIGD-", "*-PQFTL-", "*-DPFTRL-0",
        ),
    },
    "evaluate/test_drift_alarm.py": {
        "test_false_alarms_are_as_rare_as_stated": ("*level*",),
    },
    "evaluate/test_private_metrics.py": {
        "test_one_row_moves_one_window_only": ("30",),
        "test_windows_do_not_depend_on_the_blocks": ("1-40", "33-0", "1000-40"),
    },
    "evaluate/test_progressive.py": {
        "test_delay": ("0-*", "1-*", "98-*", "699-*"),
    },
    "experiments/test_experiments.py": {
        "test_the_regret_of_private_least_squares_grows_with_a_logarithm": (),
        "test_the_explain_experiment_runs": (),
        "test_linear_regression_runs": (),
    },
    "experiments/test_experiments_arena.py": {
        "test_the_arena_runs": (),
    },
    "experiments/test_experiments_local.py": {
        "test_small_reruns_on_real_rows_agree_with_the_page": (),
        "test_betting_data_runs": (),
    },
    "experiments/test_experiments_network.py": {
        "test_network_runs": (),
    },
    "experiments/test_experiments_offline.py": {
        "test_offline_runs": (),
    },
    "exporting/test_guarantee_schema.py": {
        "test_every_learner": (*FAMILIES, "OutputPerturbation*", "ObjectivePerturbation*", "POL*"),
    },
    "exporting/test_model_card.py": {
        "test_every_learner": (*FAMILIES, "OutputPerturbation*", "ObjectivePerturbation", "POL"),
    },
    "exporting/test_to_onnx.py": {
        "test_every_loss": ("True-*",),
        "test_tables_with_two_classes": ("learnt",),
        "test_tables_with_several_classes": ("0.5",),
        "test_every_learner": (*FAMILIES, "OutputPerturbation*", "ObjectivePerturbation", "POL"),
    },
    "exporting/test_to_sklearn.py": {
        "test_every_learner": (*FAMILIES, "OutputPerturbation*", "ObjectivePerturbation", "POL"),
    },
    "factorizations/test_factorizations.py": {
        "test_the_optimiser_finds_the_stored_parameters": ("64-*", "4096-*"),
    },
    "factorizations/test_forgetting.py": {
        "test_closed_forms_agree_with_dense_matrices": (
            "*'discount': 0.9}", "*'discount': 0.9999}", "*'window': 7}", "*100}",
        ),
        "test_every_bit_is_the_twins": ("*-2.0-3-*", "*-inf-1-*"),
        "test_sums_are_near_the_exact_ones_with_the_stated_noise": ("sqrt-*", "*6}"),
    },
    "factorizations/test_participation.py": {
        "test_a_million_steps_take_no_time": ("smooth", "blt", "banded", "independent"),
        "test_no_pattern_moves_more_and_the_worst_attains_the_figure": (
            "tree", "sqrt", "blt", "banded", "independent", "2",
        ),
    },
    "flower/test_flower_nodes.py": {
        "test_the_model_is_that_of_one_process": ("part of a round", "output", "sparse"),
        "test_what_a_node_claims_is_checked": ("ring", "output"),
    },
    "flower/test_flower_processes.py": {
        "test_both_examples_in_flowers_simulation": (),
    },
    "guarantees/test_composition.py": {
        "test_runs_fixed_in_advance_have_the_exact_figure_rounded_up": ("*groups[0134679]-*", "*groups10-*"),
        "test_many_different_runs_are_rounded_up_to_few": ("1e-07",),
    },
    "guarantees/test_guarantees.py": {
        "test_composition_agrees_with_privacy_loss_distributions": ("sigmas[013]",),
    },
    "guarantees/test_pure.py": {
        "test_epsilon_at_delta_is_the_exact_one_rounded_up": ("*-1e-300", "*-1e-06", "*-1e-160"),
    },
    "guarantees/test_shuffled.py": {
        "test_below_the_published_form": ("1e-05-100000-*", "1e-10-1000000-*"),
        "test_gaussian_figures_are_within_the_local_one": ("2-*", "10000-*"),
        "test_gaussian_reports_of_few_users": ("*-True",),
    },
    "learners/test_adaptive_renewal.py": {
        "test_the_settings_of_each_step_are_as_derived": ("1-repeat", "3000-*", "104857600-repeat"),
    },
    "learners/test_classes.py": {
        "test_a_row_changes_the_sums_by_no_more_than_the_sensitivity": ("softmax-*", "hinge-*"),
    },
    "learners/test_experts.py": {
        "test_averages_count_releases_as_they_say": ("*-1-*",),
    },
    "learners/test_forgetting_learners.py": {
        "test_twin": ("sqrt-*", "blt-*"),
        "test_plans_and_the_command_line_know_them": (),
    },
    "learners/test_gradients.py": {
        "test_sensitivity_by_brute_force": ("2-*",),
    },
    "learners/test_leaders_noise.py": {
        "test_regret_of_the_specification": ("0.05-*",),
        "test_a_row_changes_the_sums_by_no_more_than_the_sensitivity": (
            "*-zero_out", "*'logistic', 'radius': 4*", "*'squared', 'radius': 1.5*", "*'gradient_bound'*",
        ),
    },
    "learners/test_least_squares.py": {
        "test_the_best_distinguisher_sees_mu_and_no_more": ("replace-1.0",),
    },
    "learners/test_local_proofs.py": {
        "test_a_question_cannot_raise_the_leakage": ("<lambda>0", "<lambda>2"),
        "test_no_path_exceeds_the_bound": ("True-anytime", "False-horizon"),
    },
    "learners/test_offline.py": {
        "test_output_noise_has_the_scale_of_its_calibration": ("0.0-3", "1e-06-1"),
        "test_published_noise_exceeds_its_claim_and_the_default_does_not": (),
        "test_no_row_moves_the_minimiser_by_more_than_the_sensitivity": (
            "logistic-replace", "logistic of 3-*", "smooth hinge-zero_out", "Huber-*", "squared-replace",
        ),
    },
    "learners/test_offline_custom.py": {
        "test_a_function_that_fails_ends_a_fit_that_is_paid_for": (
            "raises-*", "overflows-gradient-*", "infinity-value-*", "None-*",
        ),
    },
    "learners/test_sklearn.py": {
        "test_checks": (
            "PIGD(*release='last',x_bound=20.0)-*", "DPFTRL(*loss='softmax'*", "AdaptiveFTRL(*release='last')-*",
            "PQFTL(*", "NOGD(*l2=0.1*", "LDPSGD(*", "BANCO(*", "SparseDOLA(*",
            "OutputPerturbation(*random_state=0,x_bound=20.0)-*", "ObjectivePerturbation(*huber*",
        ),
    },
    "learners/test_values.py": {
        "test_a_cell": ("lists-*", "users-fit", "arrays-*", "objects-partial_fit", "frame-fit"),
        "test_a_label": ("ints-list-*", "big-*-fit", "floats-*-partial_fit", "bools-series-fit", "texts-*-fit"),
        "test_what_is_no_number_is_the_null_row": (
            "PrefixSum*", "gram", "learn_one", "ObjectivePerturbation", "fit_stream", "PrivateMetrics", "nodes",
        ),
        "test_what_is_no_label_is_the_null_row": (
            "learn_one", "OutputPerturbation", "offline fit_stream", "tape", "PrivateMetrics", "nodes",
        ),
    },
    "ledger/test_instants.py": {
        "test_everything_that_left_is_counted": (
            "fit_stream", "a kept run, last", "devices", "a kept rank", "metrics", "SymmetricSum",
            "ObjectivePerturbation", "a sealed fit", "PrivateSelection", "privol run, at rest",
        ),
        "test_everything_that_leaves_a_resumed_run_is_counted": ("a kept run, last", "a kept rank", "a sealed fit"),
    },
    "losses/test_class_losses.py": {
        "test_the_softmax_bound_holds_and_is_nearly_attained": ("[27]-*", "20-1.0"),
    },
    "losses/test_losses.py": {
        "test_replace_diameter_is_never_exceeded_and_nearly_attained": ("*-(1.0, 1.0, 1.0)-3", "*-(0.5, 8.0, 3.0)-2"),
        "test_zero_out_diameter_is_the_gradient_bound_and_attained": ("*-(2.0, 0.7, 0.5)", "*-(3.0, 2.0, 0.0)"),
    },
    "noise/test_discrete.py": {
        "test_law": ("DiscreteGaussian-1", "DiscreteLaplace-3.5", "*-20.1", "*-5.49756e+11"),
        "test_coin": ("85", "1300"),
        "test_random_words": (
            "DiscreteGaussian-*", "*-0.01", "*-3.5", "DiscreteLaplace-33.3", "DiscreteLaplace-1.09951e+12_1",
        ),
        "test_limits": ("DiscreteGaussian-*", "DiscreteLaplace-[13]*"),
        "test_undecided_blocks_are_resolved_with_more_bits": (
            "DiscreteGaussian-9*", "DiscreteLaplace-*5*", "DiscreteGaussian-5", "*31.999",
        ),
    },
    "noise/test_drawing_ahead.py": {
        "test_the_garbage_collector_may_draw_anywhere": ("DiscreteGaussian",),
        "test_calls_for_any_numbers_of_vectors_give_the_same": ("l2_laplace-[13]", "sphere-3", "sphere-3000"),
    },
    "noise/test_noise.py": {
        "test_undecided_coordinates_are_rounded_correctly": ("1e-12-*", "0.0-0.37"),
    },
    "noise/test_noise_laws.py": {
        "test_norms": ("1", "3", "54"),
        "test_norm_and_direction_are_independent": ("2", "54"),
        "test_vectors_are_independent": ("2", "54"),
        "test_directions": ("1", "2", "54"),
    },
    "noise/test_samplers.py": {
        "test_special_words_in_every_place_of_a_vector": ("l2_laplace-[12]", "sphere-3"),
    },
    "prefix/test_prefix.py": {
        "test_the_best_distinguisher_finds_what_is_claimed_and_no_more": ("tree-*", "blt-*", "banded-*", "smooth-*"),
        "test_an_unknown_horizon_is_supported": ("*-3", "tree-1"),
    },
    "prefix/test_renewal.py": {
        "test_least_squares": ("*-double-3", "blt-*"),
        "test_cut_saved_and_restored_anywhere": ("tree-*", "blt-double", "banded-repeat", "smooth-double"),
        "test_least_squares_cut_saved_and_restored_anywhere": (
            "tree-*", "blt-double", "banded-repeat", "smooth-double",
        ),
        "test_interrupts_change_nothing": ("repeat-make", "double-make_ridge"),
        "test_an_epoch_has_the_noise_of_a_run_of_its_length": ("*-repeat-*", "*-double-make"),
        "test_a_row_moves_its_own_epoch_alone": ("blt-*", "independent-double-*"),
        "test_twin": ("*-3",),
    },
    "project/test_promises.py": {
        "test_threshold_projection_errs_by_what_is_charged": ("*-64", "*-512", "Simplex-0.97-4096"),
    },
    "readers/test_plain_lines.py": {
        "test_both_csv_readers_agree": ("?n-,", "?r?n-;", "?n-?t"),
    },
    "readers/test_stream_files.py": {
        "test_memory_is_flat": ("csv.gz", "npy"),
    },
    "readers/test_stream_live.py": {
        "test_pieces_end_anywhere": ("a.csv*", "b.csv*-bytes", "d.csv*", "e.jsonl*-compress", "f.svm*-bytes"),
    },
    "reproduce/test_data_figures.py": {
        "test_the_other_figures_run_at_a_small_size": (),
    },
    "river/test_river.py": {
        "test_checks_of_river_pass_for_learners": ("adaptive", "pqftl"),
        "test_checks_of_river_pass_for_losses": ("softmax",),
        "test_checks_of_river_pass_for_estimators": ("labels learnt", "regressor"),
    },
    "rounds/test_devices.py": {
        "test_two_processes_are_the_estimator_and_no_secret_crosses_the_wire": ("privunit", "multiscale"),
        "test_example_devices_on_a_table_of_real_targets": (),
    },
    "rounds/test_randomizers.py": {
        "test_empirical_epsilon": ("2-*", "3-*", "10-*"),
        "test_unbiased_and_of_the_variance": ("*-1-*", "*-2-0.6", "*-10-0.0"),
    },
    "serving/test_serve_command.py": {
        "test_a_run_that_ends_while_its_columns_are_learnt_does_not_go_on": ("15",),
    },
    "state/test_kept_databases.py": {
        "test_a_run_that_is_killed_comes_to_the_same_bits": ("sqlite",),
        "test_rows_inserted_deleted_or_moved_before_the_position_are_an_error": ("sqlite-*", "duckdb-UPDATE*"),
    },
    "state/test_kept_live.py": {
        "test_an_encoding_is_learnt_of_the_first_messages_and_the_run_goes_on_behind_them": (),
    },
    "state/test_kept_postgres.py": {
        "test_a_server_that_goes_away_is_asked_for_the_rest": ("cut_off",),
    },
    "state/test_kept_runs.py": {
        "test_an_interrupted_run_reaches_the_same_bits": FAMILIES,
        "test_other_noise_or_another_version_is_not_resumed": FAMILIES,
        "test_killed_at_every_write": ("PIGD-5",),
        "test_an_ended_run_shows_its_last_visible_model": FAMILIES,
    },
    "state/test_kills.py": {
        "test_killed_ranks_come_to_the_same_end": (),
        "test_the_kill_campaign_finds_no_violation": ("two kinds",),
        "test_the_campaign_detects_broken_code": (),
    },
    "state/test_leaks.py": {
        "test_a_live_run_shows_nothing": LEAKS,
        "test_a_kept_run_shows_nothing": LEAKS,
        "test_prefix_sums_show_nothing": (
            "PrefixSum-tree", "PrefixSum-blt", "SymmetricSum-smooth", "SymmetricSum-independent",
        ),
        "test_results_are_copies": FAMILIES,
        "test_errors_reveal_nothing_about_other_rows": (
            "PIGD-*", "DPFTRL blt-*", "PQFTL-*", "*-interrupt", "*-row",
        ),
    },
    "state/test_leaks_commands.py": {
        "test_a_run_prints_and_writes_nothing_secret": (
            "-dpftrl", "--no-diag*", "--private-metrics 0.1 --json-p*",
        ),
    },
    "state/test_live_runs.py": {
        "test_every_learner_learns_what_learn_one_does": FAMILIES,
    },
    "state/test_silence.py": {
        "test_what_was_learnt_is_kept_before_other_rows_come": FAMILIES,
    },
    "state/test_silent_servers.py": {
        "test_an_interrupt_is_heard_while_a_server_is_silent": ("2-0",),
    },
    "streams/test_queues.py": {
        "test_rows_that_teach_do_not_wait_for_others": ("True",),
    },
    "streams/test_stream_errors.py": {
        "test_a_file_cut_short": (".gz", ".bz2"),
    },
    "streams/test_users.py": {
        "test_long_streams": ("10-7-*", "80-*"),
    },
    "streams/test_values_of_streams.py": {
        "test_a_value_in_a_stream": (
            "lists", "users", "arrays", "objects", "real targets", "blocks", "dict pairs", "frame by schema",
        ),
    },
    "topology/test_mixing.py": {
        "test_links_have_their_probabilities": ("subgraph", "failures", "matching"),
        "test_the_window_is_the_smallest": (
            "static", "subgraph", "neighbours, full", "matching", "gossip", "failures twice",
        ),
        "test_every_round_is_doubly_stochastic_exactly": ("node-*", "pair-*", "grid-*"),
    },
    "verifying/test_checker.py": {
        "test_real_runs_hold": (
            "default", "epsilon 0.3, zero_out", "several classes", "real target", "all rows teach", "dpftrl, blt",
            "dpftrl, tree", "dpftrl, zero_out, tree", "nogd*",
        ),
    },
    "verifying/test_kinds.py": {
        "test_real_runs_hold_and_less_noise_does_not": (
            "pqftl", "pqftl zero_out tree", "discount", "window", "epochs", "softmax", "class weight", "metrics",
            "metrics zero_out", "nogd squared", "pigd", "pigd every 100", "pigd zero_out", "pigd inverse_sqrt",
            "pigd ended between models", "pgiga", "pol", "pol pure", "pol uniform", "pol last", "output",
            "output in a ball", "output pure", "output zero_out", "objective", "objective zero_out", "objective pure",
            "objective pure full", "objective of classes", "objective huber", "miogd", "bandit", "privunit", "duchi",
            "l2laplace", "laplace", "gaussian", "banco", "agnostic", "multiscale", "dola", "dola output",
            "dola privunit", "sparse-dola", "* published", "dola published on outputs", "users", "users nogd",
            "users sqrt steps", "users tree", "users smooth", "users epochs", "users phases", "users pigd",
            "users pqftl", "users pol", "users objective", "sparse rows", "cap", "cap of iterates",
            "cap of a network", "cap of devices", "cap and budget hidden", "cap and metrics",
        ),
    },
    "verifying/test_ledgers.py": {
        "test_real_ledgers_hold": ("budget.jsonl", "users.jsonl"),
    },
    "verifying/test_patterns.py": {
        "test_trees_cost_no_more_than_the_noise_covers": ("own[012]",),
    },
    "verifying/test_roundings_checked.py": {
        "test_roundings_are_charged": (
            "implicit*", "gradient steps*", "steps*", "moments*", "gradients*", "messages*", "averages", "last*",
        ),
    },
    "verifying/test_selections.py": {
        "test_selections_hold": ("pure of users", "pure zero_out", "gaussian", "regression"),
        "test_the_price_is_that_of_the_proof": ("0.01-20.0-*", "1.0-1.5-*", "20.0-100000.0-*"),
        "test_planted_errors_are_caught": (
            "another law*", "rows that*", "one fit*", "scores that*", "a larger*", "longer*", "another relation*",
            "a stated*", "a delta*", "a candidate*", "fewer*",
        ),
        "test_less_noise_on_scores_is_caught": ("pure*", "gaussian", "regression"),
    },
    "verifying/test_sums.py": {
        "test_real_sums_hold_and_less_noise_does_not": (
            "*-plain", "*-zero_out, steps", "*-users", "*-a bound", "[bit]*-epochs", "sqrt-epochs", "honaker-epochs",
        ),
    },
}  # fmt: skip


#: Where conftest.py keeps the cases of this session, by file and test.
CASES = pytest.StashKey[dict[tuple[str, str], list[str]]]()


def is_thorough(path: str, test: str, case: str) -> bool:
    """Say whether a case of a test is left out of the default run; ``path`` is relative to ``tests``."""
    kept = KEPT.get(path, {}).get(test)
    return kept is not None and not any(fnmatchcase(case, pattern) for pattern in kept)
