//! Rings by score: each server has a score for the key, and the lowest wins.

use super::Servers;

/// Among equal scores, the first wins.
pub(super) fn least<S: Copy + Ord>(scores: impl Iterator<Item = (S, usize)>) -> usize {
    scores.min_by_key(|(score, _)| *score).map_or(0, |(_, server)| server)
}

pub(super) fn ascending<'a, S: Copy + Ord + 'a>(scores: impl Iterator<Item = (S, usize)>) -> Servers<'a> {
    let mut scores: Vec<_> = scores.collect();
    scores.sort_by_key(|(score, _)| *score);
    Box::new(scores.into_iter().map(|(_, server)| server))
}
