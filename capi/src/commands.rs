//! The table of calls for C: how a request for each begins, found by its name.

use std::ffi::{c_char, CStr, CString};
use std::sync::OnceLock;

use pinyon_cache::calls::{self, Call, Language};

use crate::errors::c_string;
use crate::exported::exported;
use crate::requests::{with, Verb};
use crate::structs::{to_fill, Command};

/// The verb and the flags of each call that one request makes.
const REQUESTS: [(&Call, Verb, u32); 23] = [
    (&calls::GET, Verb::Get, 0),
    (&calls::GETS, Verb::Get, with::CAS),
    (&calls::GET_WITH_TTL, Verb::Get, with::TTL),
    (&calls::GAT, Verb::Gat, 0),
    (&calls::GATS, Verb::Gat, with::CAS),
    (&calls::TOUCH, Verb::Touch, 0),
    (&calls::SET, Verb::Set, 0),
    (&calls::ADD, Verb::Add, 0),
    (&calls::REPLACE, Verb::Replace, 0),
    (&calls::APPEND, Verb::Append, with::RAW),
    (&calls::PREPEND, Verb::Prepend, with::RAW),
    (&calls::CAS, Verb::Set, with::CAS),
    (&calls::DELETE, Verb::Delete, 0),
    (&calls::INCR, Verb::Incr, 0),
    (&calls::DECR, Verb::Decr, 0),
    (&calls::META, Verb::Metadata, 0),
    (&calls::LEASE, Verb::Lease, 0),
    (&calls::GIVE_BACK, Verb::GiveBack, 0),
    (&calls::FLUSH_ALL, Verb::FlushAll, 0),
    (&calls::CLEAR_NAMESPACE, Verb::ClearNamespace, 0),
    (&calls::INVALIDATE_TAGS, Verb::InvalidateTags, 0),
    (&calls::STATS, Verb::Stats, 0),
    (&calls::VERSION, Verb::Versions, 0),
];

/// Texts of a call as C reads them.
struct Texts {
    name: CString,
    takes: CString,
    gives: CString,
}

fn texts() -> &'static [Texts] {
    static ALL: OnceLock<Vec<Texts>> = OnceLock::new();
    ALL.get_or_init(|| REQUESTS.iter().map(|(call, ..)| Texts::of(call)).collect())
}

impl Texts {
    fn of(call: &Call) -> Self {
        let takes: Vec<_> = call.takes.iter().map(|takes| takes.word()).collect();
        let name = call.name_in(Language::C).unwrap_or_default();
        Self { name: c_string(name), takes: c_string(&takes.join(" ")), gives: c_string(call.gives.word()) }
    }
}

fn command(index: usize, size: usize) -> Option<Command> {
    let ((_, verb, with), texts) = (REQUESTS.get(index)?, texts().get(index)?);
    let Texts { name, takes, gives } = texts;
    let (name, takes, gives) = (name.as_ptr(), takes.as_ptr(), gives.as_ptr());
    Some(Command { size, verb: *verb as u32, with: *with, name, takes, gives })
}

exported! {
    fn pinyon_command_named(name: *const c_char, command: *mut Command) -> bool {
        if name.is_null() {
            return false;
        }
        let name = CStr::from_ptr(name);
        let index = texts().iter().position(|texts| *texts.name == *name);
        index.is_some_and(|index| pinyon_command_at(index, command))
    }

    fn pinyon_command_at(index: usize, place: *mut Command) -> bool {
        let Ok(place) = to_fill(place) else { return false };
        let Some(found) = command(index, place.size) else { return false };
        *place = found;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_that_c_has_is_a_request() {
        let of_c: Vec<_> = calls::ALL.into_iter().filter_map(|call| call.name_in(Language::C)).collect();
        let mut here: Vec<_> = REQUESTS.iter().map(|(call, ..)| call.name).collect();
        here.sort_by_key(|name| of_c.iter().position(|of_c| of_c == name));
        assert_eq!(here, of_c);
    }
}
