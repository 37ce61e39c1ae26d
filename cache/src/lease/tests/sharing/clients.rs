//! The clients of a scenario, by their settings.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::calls::Texts;
use super::text;
use crate::fleet::{Access, Fleet};
use crate::lease::Flights;
use crate::near::{Limits, Near};
use crate::operations::tests::world::fleet;
use crate::operations::Policy;
use crate::session::Clearing;
use crate::tags::KnownTags;
use pinyon_net::fake_clock::clock;
use pinyon_proto::KeyRules;

/// A client, or a view of one.
#[derive(Clone)]
pub struct Client {
    /// The number of its fleet.
    pub process: usize,
    pub tags: Arc<KnownTags>,
    pub policy: Policy,
    pub flights: Arc<Flights<Texts>>,
    /// The last token that it has read.
    pub token: Option<u64>,
}

impl Client {
    pub fn keys(&self) -> &KeyRules {
        self.tags.rules()
    }
}

/// The clients by their names, and the servers as each sees them. `common`: the settings of all, the last ones first of all.
pub fn of(common: &[&Value], each: &Value) -> (HashMap<String, Client>, Vec<Fleet>) {
    let (mut clients, mut fleets) = (HashMap::new(), Vec::new());
    let (views, own): (Vec<_>, Vec<_>) =
        each.as_object().unwrap().iter().partition(|(_, settings)| settings.get("using").is_some());
    for (name, settings) in own {
        let mut all = Map::new();
        for settings in common.iter().filter_map(|common| common.as_object()).chain(settings.as_object()) {
            all.extend(settings.clone());
        }
        let access = access(&all);
        let tags = access.tags.clone().unwrap();
        let (process, policy) = (fleets.len(), Policy::default());
        clients.insert(name.clone(), Client { process, tags, policy, flights: Arc::default(), token: None });
        fleets.push(fleet(access));
    }
    for (name, settings) in views {
        let mut view = clients[text(&settings["using"])].clone();
        view.policy.miss = settings["on_failure"] == "miss";
        view.policy.near = settings["near"] != false;
        clients.insert(name.clone(), view);
    }
    (clients, fleets)
}

fn access(settings: &Map<String, Value>) -> Access {
    let seconds = |value: &Value| Duration::from_secs_f64(value.as_f64().unwrap());
    let (mut namespace, mut is_clearable, mut ttl) = ("", false, Duration::from_secs(1));
    let (mut fresh, mut grace) = (None, Duration::from_secs(1));
    for (name, value) in settings {
        match name.as_str() {
            "namespace" => namespace = text(value),
            "clearable" => is_clearable = value.as_bool().unwrap(),
            "generation_ttl" => ttl = seconds(value),
            "near" => fresh = Some(seconds(&value["fresh"])),
            "timeout" => grace = seconds(value),
            _ => panic!("{name} is not a setting of these clients"),
        }
    }
    let near = fresh.map(|fresh| Arc::new(Near::new(Limits { bytes: 1 << 20, fresh, grace })));
    let keys = KeyRules::new(namespace.as_bytes(), false).unwrap();
    let keys = if is_clearable { keys.clearable().unwrap() } else { keys };
    let clearing = || Clearing::new(namespace.as_bytes(), ttl).keeping(near.as_ref()).by_clock(clock).into();
    let tags = Arc::new(KnownTags::new(keys, ttl).with(clock, 100));
    Access { clearing: is_clearable.then(clearing), near, tags: Some(tags), ..Access::default() }
}
