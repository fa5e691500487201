//! A test suite for implementations of [`Store`].
//!
//! Each case is a function that takes an empty store and panics if the store violates the contract.
//! [`check_all`] runs all cases. The name of a case begins with its promise, and a failed case
//! prints its name.
//!
//! ```
//! use pleach::store::{MemoryStore, Store, conformance};
//! use std::sync::Arc;
//!
//! let make = async || Arc::new(MemoryStore::new()) as Arc<dyn Store>;
//! pleach::runtime::block_on(conformance::check_all(make));
//! ```
//!
//! Cases use leases and timers of a few milliseconds, and poll until they have expired. They cannot
//! damage stored data, cut the power or fill the disk; a durable store needs its own tests for
//! that.

mod claims;
mod fixture;
mod inbox;
mod log;
mod observing;
mod retention;

pub use claims::*;
pub use inbox::*;
pub use log::*;
pub use observing::*;
pub use retention::*;

use super::Store;
use std::pin::Pin;
use std::sync::Arc;

/// The future of a running case.
pub type Checking<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One test case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    /// The name of the case's function.
    pub name: &'static str,
    /// Panics if the store violates the contract.
    pub check: for<'a> fn(&'a dyn Store) -> Checking<'a>,
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// All cases of the suite, in the order of their promises.
        pub const CASES: &[Case] = &[$(Case { name: stringify!($name), check: |store| Box::pin($name(store)) }),*];
    };
}

cases!(
    c1_record_is_read_back_unchanged,
    c1_any_text_is_a_distinct_run_id,
    c1_bytes_are_stored_unchanged,
    c1_log_keeps_every_turn_of_a_loop,
    c1_headers_are_read_without_their_bodies,
    c1_rows_are_read_in_order_and_in_pages,
    c1_missing_row_is_reported,
    c2_rejected_commit_changes_nothing,
    c2_repeated_commit_is_confirmed_again,
    c5_fork_outlives_its_original,
    c5_pruned_row_error_names_the_oldest,
    c6_stale_epoch_is_fenced,
    c6_wrong_head_is_fenced,
    c6_one_of_concurrent_commits_succeeds,
    c6_concurrent_claim_and_commit_leave_one_driver,
    c6_held_run_is_claimed_only_by_force,
    c6_released_run_is_fenced,
    c6_recreated_run_is_another_instance,
    c6_renewal_returns_lost_runs,
    c6_expired_lease_can_be_renewed_if_unclaimed,
    c6_owner_can_claim_its_run_again,
    c6_commits_and_renewals_return_the_time,
    c8_message_makes_a_waiting_run_due,
    c8_no_message_is_missed,
    c9_message_is_numbered_and_taken_once,
    c9_same_dedup_text_is_one_message,
    c9_ended_run_accepts_no_messages,
    c9_full_inbox_rejects_messages,
    c9_command_replaces_earlier_commands,
    c10_too_large_values_are_rejected,
    c10_invalid_arguments_are_rejected,
    c10_unknown_run_is_named,
    c11_runs_are_listed_by_status_graph_and_time,
    c11_pages_list_every_run_once,
    c11_ended_runs_are_removed_by_age,
    c11_deleted_run_is_gone,
    c11_pruning_keeps_the_named_rows,
    c12_timer_makes_a_run_due,
    c12_extreme_wake_times_are_due_or_never,
    c12_deadline_is_stored_with_the_run,
    c13_run_taken_over_too_often_is_stuck,
    c13_troubled_run_rests_and_becomes_stuck,
    c13_run_left_to_others_rests_uncounted,
    c14_run_id_is_created_once,
    c14_repeated_creation_is_confirmed_again,
    c15_ready_runs_are_shared,
    c15_only_known_graphs_are_claimed,
    c15_runs_of_a_dead_owner_are_taken_over,
    c15_longest_due_runs_come_first,
    o6_failure_is_stored_with_the_run,
    o7_lists_match_a_model,
    o7_runs_are_listed_by_id_prefix,
    o7_runs_are_listed_by_tag,
    o7_tags_are_fenced_with_their_commit,
    o7_tags_are_removed_with_their_run,
    o8_overdue_runs_are_found_by_version,
    o8_overdue_runs_are_ordered_by_their_time,
    o9_refused_messages_are_bounded,
    o9_refused_messages_are_listed,
    o9_untaken_message_is_known_by_its_number,
);

/// Runs all cases, each with a new empty store from `make`.
///
/// # Panics
/// If a case fails. The name of the case is printed to standard error.
pub async fn check_all(make: impl AsyncFn() -> Arc<dyn Store>) {
    for case in CASES {
        let store = make().await;
        fixture::named(case.name, (case.check)(&*store)).await;
    }
}
