//! The settings of a view of a client.

use crate::operations::Policy;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::settings;

settings! {
    /// The settings of a view of a client. The others stay as they are.
    pub struct ViewSettings {
        /// As for the client.
        failover: Option<bool> = None,
        /// As for the client.
        on_failure: Option<String> = None,
        /// As for the client.
        on_unreadable: Option<String> = None,
        /// Whether to return values that the client keeps in memory (`near`), or to ask the servers.
        near: Option<bool> = None,
    }
}

impl ViewSettings {
    /// A client's policy with this view's changes.
    pub fn changed(&self, policy: Policy) -> Result<Policy, InvalidArgument> {
        let changed =
            |name, given: &Option<String>, now| given.as_ref().map_or(Ok(now), |word| Policy::is_miss(name, word));
        Ok(Policy {
            failover: self.failover.unwrap_or(policy.failover),
            miss: changed("on_failure", &self.on_failure, policy.miss)?,
            unreadable_is_miss: changed("on_unreadable", &self.on_unreadable, policy.unreadable_is_miss)?,
            near: self.near.unwrap_or(policy.near),
            ..policy
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_changes_what_it_is_given() {
        let view = |failover, on_failure: Option<&str>| ViewSettings {
            failover,
            on_failure: on_failure.map(Into::into),
            ..ViewSettings::default()
        };
        let policy = Policy::default();
        assert_eq!(policy, Policy::new(true, "raise", "raise").unwrap());
        assert_eq!(view(None, None).changed(policy).unwrap(), policy);
        assert_eq!(view(Some(false), None).changed(policy).unwrap(), Policy { failover: false, ..policy });
        assert_eq!(view(None, Some("miss")).changed(policy).unwrap(), Policy { miss: true, ..policy });
        let missing = Policy { failover: false, miss: true, ..policy };
        assert_eq!(view(Some(true), Some("raise")).changed(missing).unwrap(), policy);
        assert!(view(None, Some("return")).changed(policy).is_err());
        let passing_over = ViewSettings { on_unreadable: Some("miss".into()), ..view(None, None) };
        let asking = ViewSettings { near: Some(false), ..view(None, None) };
        assert_eq!(asking.changed(policy).unwrap(), Policy { near: false, ..policy });
        assert_eq!(passing_over.changed(policy).unwrap(), Policy { unreadable_is_miss: true, ..policy });
    }
}
