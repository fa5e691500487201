//! What a [`Store`] must do, as a suite: each case is a function that takes an empty store and panics if the store fails it.
//!
//! [`check_all`] runs all of them. Their names begin with the promise they belong to; a case that fails names itself.
//!
//! ```
//! use pleach::store::{MemoryStore, Store, conformance};
//! use std::sync::Arc;
//!
//! pleach::runtime::block_on(conformance::check_all(async || Arc::new(MemoryStore::new()) as Arc<dyn Store>));
//! ```
//!
//! Cases wait for leases and timers of a few milliseconds, by asking again. They cannot damage what is stored, cut its power or fill its disk: a
//! store that is to survive such things has tests of its own for them.

mod claims;
mod fixture;
mod inbox;
mod log;
mod retention;

pub use claims::*;
pub use inbox::*;
pub use log::*;
pub use retention::*;

use super::Store;
use std::pin::Pin;
use std::sync::Arc;

/// A case at work.
pub type Checking<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One thing that a store must do.
#[derive(Clone, Copy)]
pub struct Case {
    /// The name of its function.
    pub name: &'static str,
    /// Panics if the store does not do it.
    pub check: for<'a> fn(&'a dyn Store) -> Checking<'a>,
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// All cases.
        pub const CASES: &[Case] = &[$(Case { name: stringify!($name), check: |store| Box::pin($name(store)) }),*];
    };
}

cases!(
    c1_a_record_comes_back_as_it_was_written,
    c1_any_text_is_a_run_id_and_only_that_one,
    c1_bytes_are_kept_as_they_are,
    c1_the_log_keeps_every_turn_of_a_loop,
    c1_headers_are_read_without_their_bodies,
    c1_rows_are_read_in_order_and_in_pages,
    c1_a_row_that_is_not_there_is_named,
    c2_a_refused_commit_changes_nothing,
    c2_a_repeated_commit_is_acknowledged_again,
    c5_a_fork_outlives_its_original,
    c5_a_pruned_row_tells_the_oldest,
    c6_a_stale_epoch_is_fenced,
    c6_a_wrong_head_is_fenced,
    c6_of_two_commits_at_once_one_lands,
    c6_a_claim_and_a_commit_at_once_leave_one_driver,
    c6_a_held_run_is_not_claimed_unless_forced,
    c6_a_run_that_was_given_up_is_fenced,
    c6_a_run_that_was_made_again_is_another,
    c6_renewing_tells_what_was_lost,
    c6_a_lease_that_ended_is_renewed_if_nobody_claimed,
    c6_an_owner_claims_again_what_it_holds,
    c6_commits_and_renewals_tell_the_time,
    c8_a_post_makes_a_waiting_run_due,
    c8_nobody_sleeps_through_mail,
    c9_a_message_is_numbered_and_taken_once,
    c9_the_same_dedup_text_is_one_message,
    c9_an_ended_run_takes_no_messages,
    c9_a_full_inbox_refuses,
    c9_a_command_counts_until_another_does,
    c10_what_is_too_large_is_refused,
    c10_what_makes_no_sense_is_refused,
    c10_an_unknown_run_is_named,
    c11_runs_are_listed_by_status_graph_and_time,
    c11_pages_have_every_run_once,
    c11_ended_runs_go_by_age,
    c11_a_deleted_run_is_gone,
    c11_pruning_keeps_what_it_is_told_to,
    c12_a_timer_makes_a_run_due,
    c12_times_at_the_ends_of_the_range_wake_or_never_do,
    c12_a_deadline_is_kept_with_the_run,
    c13_a_run_taken_over_too_often_is_stuck,
    c13_a_run_that_cannot_be_driven_rests_and_is_stuck,
    c13_a_run_left_to_others_rests_and_is_not_counted,
    c14_a_run_id_is_taken_once,
    c14_a_repeated_creation_is_acknowledged_again,
    c15_ready_runs_are_shared,
    c15_only_known_graphs_are_claimed,
    c15_a_dead_owners_runs_are_taken_over,
    c15_those_due_longest_go_first,
);

/// Checks all cases, each on an empty store that `make` gives.
pub async fn check_all(make: impl AsyncFn() -> Arc<dyn Store>) {
    for case in CASES {
        let store = make().await;
        fixture::named(case.name, (case.check)(&*store)).await;
    }
}
