#!/usr/bin/env bash
# Runs the loom models with one seeded fault at a time and checks that they notice each: for each fault the model that must.
set -euo pipefail
cd "$(dirname "$0")/.."

mutants=(
    "sleep_without_fence announce_idle_against_publish"
    "sleep_without_looking shutdown_against_queueing_a_series_again"
    "sleep_through_shutdown the_last_task_taken_against_falling_asleep_in_shutdown"
    "time_out_regardless hand_over_against_time_out"
    "keep_the_call waiting_for_room_against_making_it"
    "leave_without_looking submit_against_last_worker_leaves"
    "publish_and_hope submit_against_shutdown"
    "guess_room waiting_for_room_against_making_it"
    "interrupt_whatever_runs a_late_interrupt_reaches_nobody"
    "end_without_release completion_against_join"
    "free_without_acquire who_gives_up_the_last_reference_sees_what_all_did"
    "give_up_without_release who_gives_up_the_last_reference_sees_what_all_did"
    "forget_by_counting a_reference_is_made_while_another_is_given_up"
    "cancel_without_acquire decorating_against_cancel"
    "cancel_what_is_over completion_against_cancel_and_join"
    "say_too_late_too_early a_cancel_that_comes_too_late_finds_the_task_done"
    "keep_it_for_nobody completion_against_drop_of_the_handle"
    "put_back_regardless decorating_against_cancel"
    "announce_without_the_lock completion_against_a_callback"
    "name_the_runner_late an_interrupt_in_time_ends_what_runs"
    "stay_listed_as_idle permit_release_against_eviction"
    "start_a_running_lane a_lane_moves_between_two_threads"
    "park_without_looking a_lane_is_disposed_of_while_it_runs"
    "forget_the_line a_fresh_thread_for_each_task"
    "call_nobody one_wake_up_at_a_time"
    "clear_the_bell_late one_wake_up_at_a_time"
    "leave_it_stuck a_start_fails_while_another_thread_comes_to_rest"
    "call_whoever_looks the_newest_idle_slot_is_used_whoever_looks"
    "let_in_at_rest a_job_comes_when_its_lane_comes_to_rest"
    "run_on_uncounted running_on_in_a_lane_against_cancel"
    "tell_nobody_in_a_lane a_wait_for_the_second_job_of_a_lane_is_helped"
    "leave_the_timer a_lane_is_run_in_place_when_its_alarm_rings"
    "trust_the_leader an_earlier_task_against_the_leaders_falling_asleep"
    "trust_an_old_watch an_earlier_task_against_the_leaders_falling_asleep"
    "lead_for_ever the_leader_hands_the_watch_over_to_one_that_would_sleep_too_long"
    "keep_the_lead the_leader_hands_the_watch_over_to_one_that_would_sleep_too_long"
    "oversleep an_earlier_task_against_the_leaders_falling_asleep"
    "end_alone the_last_task_removed_in_shutdown_ends_the_worker"
    "keep_what_waits schedule_against_shutdown_that_keeps_nothing"
    "run_again_regardless shutdown_against_queueing_a_series_again"
    "forget_the_place cancel_against_queueing_a_series_again"
    "forget_the_notice loom_tests::reactive"
    "use_it_too_early leaving_a_segment_against_using_it_again"
    "look_at_the_end_first a_look_from_outside_against_put_and_take"
    "look_at_put_first a_look_from_outside_against_put_and_take"
    "trust_the_place removing_a_task_against_moving_it"
    "lock_without_acquire the_brief_lock_lets_in_one_at_a_time"
    "unlock_without_release the_brief_lock_lets_in_one_at_a_time"
    "look_before_it_is_free all_who_sleep_for_a_lock_get_it"
    "sleep_though_it_was_freed all_who_sleep_for_a_lock_get_it"
    "leave_the_others_asleep all_who_sleep_for_a_lock_get_it"
    "wait_for_room_that_is_there a_put_blocked_on_a_full_queue_goes_on_after_a_take"
    "wait_for_an_item_that_is_there two_waiting_takes_get_one_item_each"
    "leave_with_the_call an_interrupted_taker_takes_no_item_with_it"
    "sleep_in_secret a_put_blocked_on_a_full_queue_goes_on_after_a_take"
    "sleep_without_release a_hand_over_against_the_putters_time_out"
    "settle_without_release a_hand_over_against_the_putters_time_out"
    "leave_unserved_regardless a_hand_over_against_the_putters_time_out"
    "keep_the_room raising_the_capacity_releases_a_blocked_put"
    "count_at_two_moments the_length_is_never_above_the_bound"
    "fetch_what_comes_after_the_lent nothing_overtakes_the_items_that_somebody_looks_at"
)

export RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2
models=(cargo test -q -p millpond --all-features --lib --release --target-dir target/loom)
"${models[@]}" --no-run

missed=0
for entry in "${mutants[@]}"; do
    read -r mutant model <<<"$entry"
    # A model that fails may do so while it unwinds, and abort: any failure counts.
    if MILLPOND_MUTANT="$mutant" RUST_BACKTRACE=0 "${models[@]}" "$model" >/dev/null 2>&1; then
        echo "MISSED  $mutant"
        missed=$((missed + 1))
    else
        echo "caught  $mutant"
    fi
done
echo "$((${#mutants[@]} - missed)) passed, $missed failed"
[ "$missed" -eq 0 ]
