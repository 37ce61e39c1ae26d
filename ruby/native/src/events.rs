//! Events of the servers, and the listeners for lost locks.

use magnus::{Error, RArray, Ruby};
use pinyon_net::events::Report;

use crate::errors::failure;

/// The number of the `Held` to be told.
pub(crate) type Listener = u64;

/// The members of a `Pinyon::Client::Event`.
pub(crate) fn event_fields(ruby: &Ruby, report: Report<'_>) -> Result<RArray, Error> {
    let Report { kind, level, server, command, error, duration, line, previous } = report;
    let error = error.map(|error| failure(ruby, error)).transpose()?;
    let seconds = duration.map(|duration| duration.as_secs_f64());
    let (kind, level) = (ruby.to_symbol(kind), ruby.to_symbol(level.as_str()));
    let fields = ruby.ary_new_capa(8);
    fields.push(kind)?;
    fields.push(server)?;
    fields.push(command)?;
    fields.push(error)?;
    fields.push(seconds)?;
    fields.push(level)?;
    fields.push(&*line)?;
    fields.push(previous)?;
    Ok(fields)
}
