//! Answers of operations as Ruby's objects.

use magnus::value::ReprValue;
use magnus::{Error, IntoValue, RArray, RHash, Ruby, Value};
use pinyon_cache::events::Event;
use pinyon_cache::metrics::ServerMetrics;
use pinyon_cache::near::Figures;
use pinyon_cache::operations::{
    remaining, statistics, version, Answer, Compared, Everywhere, Failures, Found, Request, ServerCommand,
};

use super::Cache;
use crate::errors::{beside, failure, from_core, is_unreadable, reason, stored_under};
use crate::events::event_fields;
use crate::metrics::durations;
use crate::stored::Stored;

/// The answer to a request about one key. `default`: returned if the value is missing.
#[inline]
pub(super) fn answered(
    ruby: &Ruby,
    cache: &Cache,
    key: Value,
    request: &Request,
    answer: Answer<impl Into<Stored>>,
    default: Value,
) -> Result<Value, Error> {
    let read = |stored| cache.read(ruby, key, request, stored);
    let or_missing = |value: Option<Value>| value.unwrap_or_else(|| ruby.qnil().as_value());
    Ok(match answer {
        Answer::Value(value) => read(value)?.unwrap_or(default),
        Answer::Missing => default,
        Answer::Done(done) => done.into_value_with(ruby),
        Answer::Number(number) => number.into_value_with(ruby),
        Answer::ValueAnd(value, fact) => {
            or_missing(read(value)?.map(|value| (value, fact.number()).into_value_with(ruby)))
        }
        Answer::Compared(Compared::Gone) => ruby.qnil().as_value(),
        Answer::Compared(compared) => (compared == Compared::Stored).into_value_with(ruby),
        Answer::Lease(_) => unreachable!("leases are found, and then told by `leased`"),
        Answer::Metadata(item) => {
            let fields = (item.size, item.client_flags, item.cas, remaining(&item), item.last_access, item.hit_before);
            fields.into_value_with(ruby)
        }
        Answer::ValueAndMetadata(both) => {
            let (value, item) = *both;
            let recache = (item.won, item.stale, item.already_won);
            let known = (item.hit_before, item.last_access, remaining(&item));
            or_missing(read(value)?.map(|value| (value, item.cas, recache, known).into_value_with(ruby)))
        }
    })
}

/// The state, whether there is a value, the value, and the win as its token and whether a stale value stays.
pub(super) fn leased(ruby: &Ruby, found: &Found<Value>) -> Result<RArray, Error> {
    let win = found.win().map(|win| (win.cas, win.keep));
    let found = (ruby.to_symbol(found.finding.word()), found.value.is_some(), found.value, win);
    <RArray as magnus::TryConvert>::try_convert(found.into_value_with(ruby))
}

impl Cache {
    /// The value of a key; none if it cannot be read, and counts as missing for this request.
    #[inline]
    pub(super) fn read(
        &self,
        ruby: &Ruby,
        key: Value,
        request: &Request,
        stored: impl Into<Stored>,
    ) -> Result<Option<Value>, Error> {
        match self.codec.read(ruby, stored) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let passes_over = request.passes_over_unreadable(self.policy);
                self.unreadable(ruby, key, request.name(), error, passes_over).map(|()| None)
            }
        }
    }

    /// Passes over a value that cannot be read, or returns the error.
    #[cold]
    pub(super) fn unreadable(
        &self,
        ruby: &Ruby,
        key: Value,
        command: &'static str,
        error: Error,
        passes_over: bool,
    ) -> Result<(), Error> {
        if !passes_over || !is_unreadable(ruby, &error)? {
            return Err(stored_under(ruby, error, key));
        }
        self.directory.unreadable("", command, &reason(ruby, &error)?);
        Ok(())
    }
}

/// The version or statistics of each server, by name; nil if nothing was asked. `failed`: a Hash for the errors of
/// failed servers, or nil to raise them.
pub(super) fn of_servers(ruby: &Ruby, mut everywhere: Everywhere, failed: Option<RHash>) -> Result<Value, Error> {
    let asked = everywhere.asked().clone();
    if let Some(failed) = failed {
        for error in everywhere.of_servers() {
            failed.aset(&*error.server, failure(ruby, &error)?)?;
        }
    }
    let answered = everywhere.finish().map_err(|error| from_core(ruby, &error))?;
    let all = ruby.hash_new();
    for (server, lines) in answered {
        match asked {
            ServerCommand::FlushAll { .. } | ServerCommand::ClearNamespace => {}
            ServerCommand::Version => all.aset(&*server, version(&lines))?,
            ServerCommand::Stats(_) => {
                let of_server = ruby.hash_new();
                statistics(&lines).try_for_each(|(name, value)| of_server.aset(name, value))?;
                all.aset(&*server, of_server)?;
            }
        }
    }
    Ok(match asked {
        ServerCommand::FlushAll { .. } | ServerCommand::ClearNamespace => ruby.qnil().as_value(),
        _ => all.as_value(),
    })
}

/// The results; or the failure to raise, with the partial results.
pub(super) fn achieved(ruby: &Ruby, achieved: Value, mut failures: Failures) -> Result<Value, Error> {
    match failures.raised() {
        None => Ok(achieved),
        Some(error) => Err(beside(ruby, from_core(ruby, &error), achieved)),
    }
}

pub(super) fn events(ruby: &Ruby, events: Vec<Event>) -> Result<RArray, Error> {
    let all = ruby.ary_new_capa(events.len());
    events.iter().try_for_each(|event| all.push(event_fields(ruby, event.report())?))?;
    Ok(all)
}

/// A Hash with Symbols as keys.
pub(super) fn near_metrics(ruby: &Ruby, figures: Figures) -> Result<RHash, Error> {
    let all = ruby.hash_new();
    let Figures { hits, revalidations, fills, evictions, bytes } = figures;
    let counts = [
        ("hits", hits),
        ("fills", fills),
        ("revalidations", revalidations),
        ("evictions", evictions),
        ("bytes", bytes),
    ];
    counts.into_iter().try_for_each(|(name, count)| all.aset(ruby.to_symbol(name), count))?;
    Ok(all)
}

/// Nested Hashes with Symbols as keys, by the servers' names.
pub(super) fn metrics(ruby: &Ruby, servers: impl Iterator<Item = ServerMetrics>) -> Result<RHash, Error> {
    let all = ruby.hash_new();
    for ServerMetrics { server, is_up, is_gutter, idle, traffic } in servers {
        let (of_server, commands) = (ruby.hash_new(), ruby.hash_new());
        for command in &traffic.commands {
            let of_command = ruby.hash_new();
            let errors = ruby.hash_new();
            command.raised().into_iter().try_for_each(|(kind, count)| errors.aset(kind, count))?;
            let counts = [
                ("hits", command.hits),
                ("misses", command.misses),
                ("stored", command.stored),
                ("not_stored", command.not_stored),
                ("kept", command.kept),
                ("answered", command.answered),
                ("retries", command.retries),
                ("timed", command.latencies.count()),
            ];
            counts.into_iter().try_for_each(|(name, count)| of_command.aset(ruby.to_symbol(name), count))?;
            of_command.aset(ruby.to_symbol("errors"), errors)?;
            durations(ruby, of_command, &command.latencies)?;
            commands.aset(command.command.as_str(), of_command)?;
        }
        of_server.aset(ruby.to_symbol("up"), is_up)?;
        of_server.aset(ruby.to_symbol("gutter"), is_gutter)?;
        of_server.aset(ruby.to_symbol("connections"), traffic.connections)?;
        of_server.aset(ruby.to_symbol("idle"), idle)?;
        of_server.aset(ruby.to_symbol("sent"), traffic.sent)?;
        of_server.aset(ruby.to_symbol("received"), traffic.received)?;
        of_server.aset(ruby.to_symbol("commands"), commands)?;
        all.aset(&*server, of_server)?;
    }
    Ok(all)
}
