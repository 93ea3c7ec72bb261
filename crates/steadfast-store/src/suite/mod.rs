//! What every backend must do, as one test per property. A backend instantiates it:
//!
//! ```text
//! async fn fresh() -> (SharedStore, TempDir) { … }
//! steadfast_store::instantiate!(fresh);
//! ```
//!
//! `fresh` returns an empty store, and whatever must live as long as they do.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod audit;
mod clients;
mod documents;
mod events;
mod filling;
mod grants;
mod issuers;
mod leases;
mod notices;
mod operations;
mod parked;
mod presence;
mod records;
pub(crate) mod samples;
mod sign_ins;
mod vault;

pub use audit::*;
pub use clients::*;
pub use documents::*;
pub use events::*;
pub use filling::{fill_grants, fill_operations};
pub use grants::*;
pub use issuers::*;
pub use leases::*;
pub use notices::*;
pub use operations::*;
pub use parked::*;
pub use presence::*;
pub use records::*;
pub use sign_ins::*;
pub use vault::*;

/// One test per property, for the backend that `$fresh` makes.
#[macro_export]
macro_rules! instantiate {
    ($fresh:path) => {
        $crate::instantiate!(@each $fresh:
            agents_come_back_as_they_were_put
            an_agent_keeps_its_key_and_its_birth_when_its_configuration_changes
            the_latest_key_of_an_agent_is_the_only_one
            one_key_means_one_agent
            a_removed_agent_leaves_no_session_and_no_key
            servers_come_back_as_they_were_put
            a_removed_server_leaves_no_session
            what_was_learned_is_kept_per_address
            a_connection_has_one_session
            a_session_without_an_id_is_kept
            history_is_newest_first_and_per_connection
            history_is_in_the_order_of_appending_when_the_clock_goes_back
            trimming_keeps_the_newest_of_each_connection
            agent_sessions_come_back_as_they_were_put
            the_use_of_an_agent_session_only_moves_forward
            idle_agent_sessions_are_removed_and_others_stay
            parked_calls_come_back_as_they_were_put
            a_parked_call_is_taken_once
            a_session_is_waited_for_while_calls_are_parked_in_it
            expired_parked_calls_are_removed_and_others_stay
            parked_calls_go_with_their_agent_and_their_server
            grants_come_back_as_they_were_put
            the_expiry_of_a_grant_is_absolute
            a_grant_is_written_by_whoever_read_the_latest_version
            one_of_many_concurrent_writers_of_a_grant_wins
            the_generation_of_a_grant_never_goes_back
            what_is_sealed_belongs_to_its_generation
            a_removed_grant_leaves_its_numbers_and_no_tokens
            a_grant_outlives_its_agent_and_its_server
            grants_are_listed_in_parts
            due_grants_are_those_whose_time_has_come
            due_grants_come_in_turns_from_all_issuers
            due_grants_are_those_of_the_servers_that_are_asked_for
            due_grants_that_are_left_out_take_no_places
            a_leased_grant_is_not_due_until_the_lease_ends
            a_lease_has_one_holder_at_a_time
            a_lease_is_renewed_or_taken_over_after_its_end
            leases_of_different_things_are_independent
            one_of_many_concurrent_takers_gets_a_lease
            clients_belong_to_their_issuer_and_redirect_uri
            concurrent_registrants_make_one_registration
            a_connection_has_one_sign_in_at_a_time
            concurrent_sign_ins_of_a_connection_become_one
            a_sign_in_is_taken_exactly_once
            sign_ins_without_a_callback_are_taken_after_their_end
            the_sign_in_of_one_connection_is_removed
            sign_ins_go_with_their_agent_and_their_server
            a_notice_is_opened_once_and_cleared_once
            each_message_about_a_notice_is_claimed_once
            notices_are_newest_first
            the_notice_of_one_connection_is_removed
            notices_go_with_their_agent_and_their_server
            operations_come_back_as_they_were_put
            what_was_meant_never_changes
            facts_are_appended_by_whoever_read_the_latest_version
            an_answer_that_was_given_leaves_nothing_to_tell
            what_is_written_lazily_is_there_and_loses_against_a_later_version
            one_key_is_one_operation_unless_it_had_no_effect
            similar_operations_are_open_and_identical_or_of_the_same_key
            operations_are_listed_newest_first_and_in_parts
            due_operations_are_those_whose_time_has_come
            operations_are_found_by_the_daemon_that_drives_them
            held_operations_are_counted
            an_operation_outlives_its_agent_and_its_server
            a_daemon_is_present_as_long_as_it_lives
            vault_entries_come_back_as_they_were_put
            a_change_of_the_key_reseals_everything
            a_change_of_the_key_names_what_does_not_open
            resealing_replaces_only_what_was_read
            documents_come_back_as_they_were_fetched
            old_documents_are_forgotten
            what_was_learned_is_kept_per_issuer
            changes_come_back_newest_first
            old_changes_are_forgotten
            settings_are_replaced
            configuration_keeps_its_order_and_its_numbers
            texts_of_any_kind_survive
            writes_that_come_together_are_all_kept
            a_closed_store_says_so
        );
    };
    (@each $fresh:path: $($property:ident)*) => {
        $(
            #[tokio::test]
            async fn $property() {
                let (store, _guard) = $fresh().await;
                $crate::suite::$property(store).await;
            }
        )*
    };
}

/// The same for an event log.
#[macro_export]
macro_rules! instantiate_events {
    ($fresh:path) => {
        $crate::instantiate!(@each $fresh:
            events_come_back_in_the_order_of_appending
            events_of_streams_do_not_mix
            requirements_are_kept_by_resource
            old_events_are_forgotten_from_the_beginning
            a_log_that_is_too_large_forgets_the_oldest
            streams_go_with_their_session
            a_stream_of_a_daemon_that_is_no_more_is_taken_over_once
            a_closed_log_says_so
        );
    };
}
