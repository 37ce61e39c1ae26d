//! The settings of one call of `get_or_set`.

use std::sync::Arc;

use pinyon_net::invalid::{choose, InvalidArgument};
use pinyon_net::settings;
use pinyon_net::settings::{Given, Setting};

use crate::lease::{Behind, Terms};
use crate::operations::{Tagging, Tags};
use crate::tags::KnownTags;
use crate::ttl::whole_seconds;

settings! {
    /// How a value is made and kept. Times are in seconds.
    pub struct TermsSettings beside ["ttl"] {
        /// The time after `ttl` in which callers still get the old value while one of them makes a new one, in seconds.
        stale: f64 = 0.0,
        /// How long before the end of `ttl` one caller makes a new value, in seconds. All others still get the old one.
        early: f64 = 0.0,
        /// How long one caller may take to make a missing value, in seconds, rounded up to whole ones. Then another caller
        /// tries. A value that is made later is returned, but not stored.
        lease: f64 = 10.0,
        /// How long to wait for a value that another caller makes, in seconds. By default, twice `lease` and 2 seconds more,
        /// which is enough for the next caller if the first one dies.
        wait: Option<f64> = None,
        /// The share of `ttl` that may be taken off at random, less than 1. With `0.1`, values that were stored together do
        /// not expire together.
        jitter: f64 = 0.0,
        /// What a caller gets if the value cannot be made while an old one exists: the error (`"raise"`), or the old value
        /// (`"stale"`).
        on_error: String = "raise".into(),
        /// How long the old value is then used before the next caller tries again, in seconds.
        retry_after: f64 = 5.0,
        /// The tags of the value, such as `"user:7"`, by which `invalidate_tags` finds it: a list, or one alone.
        tags: TagTexts = TagTexts::default(),
        /// How long a caller waits for the value that it makes while an old one exists, in seconds. Then it gets the old
        /// value, and the value is made behind it. By default, it waits until the value is made.
        soft_timeout: Option<f64> = None,
        /// Whether the caller that makes a new value while an old one exists waits for it (`"wait"`), or gets the old one at
        /// once (`"behind"`), like a `soft_timeout` of 0.
        refresh: String = "wait".into(),
    }
}

impl TermsSettings {
    /// Checks all settings, for calls without tags whose callers wait for their makers. `ttl`: in seconds, or none if each
    /// value comes with its own.
    pub fn build(&self, ttl: Option<i64>) -> Result<Terms, InvalidArgument> {
        self.build_for(ttl, Behind::WAITS)
    }

    /// The same for calls whose makers may go on behind their callers.
    pub fn build_for(&self, ttl: Option<i64>, behind: Behind) -> Result<Terms, InvalidArgument> {
        match self.tags.0.is_empty() {
            true => self.terms(ttl, behind),
            false => Err(InvalidArgument::usage("tags are not supported here")),
        }
    }

    /// The same with the tags of the value. `known`: the client's, see
    /// [`Directory::tags`](crate::directory::Directory::tags).
    pub fn build_with_tags(
        &self,
        ttl: Option<i64>,
        behind: Behind,
        known: Option<&Arc<KnownTags>>,
    ) -> Result<(Terms, Option<Tagging>), InvalidArgument> {
        Ok((self.terms(ttl, behind)?, self.tags.tagging(known.map(Arc::as_ref))?))
    }

    fn terms(&self, ttl: Option<i64>, behind: Behind) -> Result<Terms, InvalidArgument> {
        let whole = |name: &str, seconds: f64| match seconds.is_nan() {
            true => Err(InvalidArgument::usage(format!("{name} cannot be NaN"))),
            false => whole_seconds(seconds),
        };
        let (stale, early) = (whole("stale", self.stale)?, whole("early", self.early)?);
        let terms = Terms::new(ttl, stale, early, whole("lease", self.lease)?, self.wait)?.jitter(self.jitter)?;
        let terms = match choose("on_error", &self.on_error, &[("raise", false), ("stale", true)])? {
            true => terms.stale_on_error(whole("retry_after", self.retry_after)?)?,
            false => terms,
        };
        match (choose("refresh", &self.refresh, &[("wait", false), ("behind", true)])?, self.soft_timeout) {
            (true, None) => terms.behind("refresh \"behind\"", 0.0, behind),
            (true, Some(_)) => Err(InvalidArgument::usage(
                "refresh \"behind\" waits for nothing: give it or soft_timeout, but not both",
            )),
            (false, Some(seconds)) => terms.behind("soft_timeout", seconds, behind),
            (false, None) => Ok(terms),
        }
    }
}

/// The names of tags: one, or a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagTexts(pub Vec<Vec<u8>>);

impl TagTexts {
    /// The tags to store a value with; `None` without any. `known`: the client's, see
    /// [`Directory::tags`](crate::directory::Directory::tags).
    pub fn tagging(&self, known: Option<&KnownTags>) -> Result<Option<Tagging>, InvalidArgument> {
        match self.0.is_empty() {
            true => Ok(None),
            false => Tags::new(known, self.0.iter().map(Vec::as_slice)).map(|tags| Some(Tagging::Named(tags))),
        }
    }
}

impl Setting for TagTexts {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        let listed = match given {
            Given::Nothing => Vec::new(),
            Given::List(listed) => listed,
            one => vec![one],
        };
        listed.into_iter().map(|tag| Vec::read(name, tag)).collect::<Result<_, _>>().map(Self)
    }

    fn given(&self) -> Given<'_> {
        Given::List(self.0.iter().map(Setting::given).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinyon_net::settings::trial::filled;
    use pinyon_net::settings::NamedSettings;

    fn built(named: &[(&str, Given<'_>)]) -> Result<Terms, String> {
        built_for(Behind::Can, named)
    }

    fn built_for(behind: Behind, named: &[(&str, Given<'_>)]) -> Result<Terms, String> {
        let settings: Result<TermsSettings, _> = filled(named);
        settings.and_then(|settings| settings.terms(Some(60), behind)).map_err(|refused| refused.message)
    }

    #[test]
    fn terms_are_filled_by_name() {
        let usual = Terms::new(60, 0, 0, 10, None).unwrap();
        assert_eq!(built(&[]), Ok(usual));
        let all = [
            ("stale", Given::Number(29.5)),
            ("early", Given::Whole(10)),
            ("lease", Given::Untyped("4.2")),
            ("wait", Given::Whole(3)),
            ("jitter", Given::Number(0.1)),
            ("on_error", Given::Text("stale")),
            ("retry_after", Given::Number(0.1)),
            ("tags", Given::List(vec![Given::Text("user:7"), Given::Bytes(b"page")])),
            ("soft_timeout", Given::Number(0.2)),
            ("refresh", Given::Text("wait")),
        ];
        let expected = Terms::new(60, 30, 10, 5, Some(3.0)).and_then(|terms| terms.jitter(0.1));
        let expected = expected.and_then(|terms| terms.stale_on_error(1)?.behind("soft_timeout", 0.2, Behind::Can));
        assert_eq!(built(&all), expected.map_err(|refused| refused.message));
        assert!(all.iter().map(|(name, _)| *name).eq(TermsSettings::NAMES.iter().copied()), "each is tried");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (name, given, why) in [
            ("retryafter", Given::Whole(1), "there is no setting \"retryafter\"; did you mean \"retry_after\"?"),
            ("stale", Given::Text("60"), "stale must be a number"),
            ("stale", Given::Number(f64::NAN), "stale cannot be NaN"),
            ("lease", Given::Whole(0), "lease must be positive"),
            ("jitter", Given::Whole(1), "jitter must be a share of ttl"),
            ("jitter", Given::Number(f64::NAN), "jitter must be a share of ttl"),
            ("on_error", Given::Text("ignore"), "on_error must be \"raise\" or \"stale\", not \"ignore\""),
            ("on_error", Given::Text("stale"), "on_error \"stale\" needs stale"),
            ("refresh", Given::Text("ahead"), "refresh must be \"wait\" or \"behind\", not \"ahead\""),
            ("refresh", Given::Text("behind"), "refresh \"behind\" needs stale"),
            ("soft_timeout", Given::Number(1.0), "soft_timeout needs stale"),
        ] {
            let refused = built(&[(name, given)]).unwrap_err();
            assert!(refused.contains(why), "{name}: {refused}");
        }
        let never =
            built(&[("stale", Given::Whole(1)), ("on_error", Given::Text("stale")), ("retry_after", Given::Whole(0))]);
        assert!(never.unwrap_err().contains("retry_after must be positive"));
    }

    #[test]
    fn makers_go_on_behind_only_where_something_carries_them_on() {
        let stale = || ("stale", Given::Whole(30));
        let behind = || ("refresh", Given::Text("behind"));
        let at_once = Terms::new(60, 30, 0, 10, None).and_then(|terms| terms.behind("", 0.0, Behind::Can));
        assert_eq!(built(&[stale(), behind()]), Ok(at_once.unwrap()));
        assert_eq!(built(&[stale(), behind()]), built(&[stale(), ("soft_timeout", Given::Whole(0))]));
        let both = built(&[stale(), behind(), ("soft_timeout", Given::Whole(1))]);
        assert!(both.unwrap_err().contains("not both"));
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            let refused = built(&[stale(), ("soft_timeout", Given::Number(wrong))]).unwrap_err();
            assert!(refused.contains("soft_timeout must be at least 0"), "{refused}");
        }
        for (setting, name) in
            [(behind(), "refresh \"behind\""), (("soft_timeout", Given::Number(0.2)), "soft_timeout")]
        {
            let refused = built_for(Behind::Never("nothing goes on here"), &[stale(), setting]).unwrap_err();
            assert_eq!(refused, format!("{name} cannot be used here: nothing goes on here"));
        }
        assert!(built_for(Behind::Never(""), &[stale(), ("refresh", Given::Text("wait"))]).is_ok());
    }
}
