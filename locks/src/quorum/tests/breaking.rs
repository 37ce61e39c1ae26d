//! Each rule broken on purpose. The schedules or a story must notice.

use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::Arc;

use super::schedules::run;
use super::{progress, stories};
use crate::quorum::rules::broken::{break_rule, kept};
use crate::quorum::rules::Rule;

/// Whether no rule is broken in this thread.
pub(super) fn is_whole() -> bool {
    ALL.into_iter().all(|(rule, _)| kept(rule))
}

/// What notices that a rule is broken.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// One of so many random schedules.
    BySchedules(u64),
    ByStory(fn()),
}

const ALL: [(Rule, Found); 10] = [
    (Rule::Majority, Found::BySchedules(2000)),
    (Rule::StoredToken, Found::BySchedules(2000)),
    (Rule::YoungHaveNoVote, Found::ByStory(stories::a_server_that_has_forgotten_a_lock_does_not_vote_for_another)),
    (Rule::Floor, Found::ByStory(stories::tokens_outlive_a_counter_that_was_lost)),
    (Rule::ValidVotes, Found::BySchedules(2000)),
    (Rule::ValidMajority, Found::BySchedules(4000)),
    (Rule::OneOrder, Found::ByStory(progress::whatever_happened_somebody_has_the_lock_within_a_few_rounds)),
    (Rule::GiveWay, Found::ByStory(progress::in_every_order_of_asking_somebody_has_the_lock_within_a_few_rounds)),
    (Rule::AskAgain, Found::ByStory(stories::servers_may_be_restarted_in_turn)),
    (Rule::ReleaseAll, Found::ByStory(stories::what_is_released_is_free_everywhere)),
];

/// Looks for a failure in schedules, each with the rule broken.
fn is_found(rule: Rule, found: Found) -> bool {
    break_rule(Some(rule));
    let is_found = match found {
        Found::BySchedules(most) => (0..most).any(|seed| catch_unwind(|| run(seed, false)).is_err()),
        Found::ByStory(story) => catch_unwind(story).is_err(),
    };
    break_rule(None);
    is_found
}

#[test]
fn every_broken_rule_is_found() {
    let usual = Arc::new(take_hook());
    let hook = usual.clone();
    // What fails here is expected to.
    set_hook(Box::new(move |panic| {
        if is_whole() {
            hook(panic)
        }
    }));
    let missed: Vec<Rule> =
        ALL.into_iter().filter(|(rule, found)| !is_found(*rule, *found)).map(|(rule, _)| rule).collect();
    set_hook(Box::new(move |panic| usual(panic)));
    assert!(missed.is_empty(), "nothing notices that these are broken: {missed:?}");
}
