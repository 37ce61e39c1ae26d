//! Encodes commands as requests: chooses the syntax, and says which reply to expect.

use crate::number::{push, push_hex};
use crate::{classic, meta, Capabilities, Command, ServerVersion, Verb};

/// A number that is sent with a meta command and echoed in its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opaque(pub u16);

/// The expected reply to a request: its form, and what proves that it belongs to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expect {
    pub form: Form,
    /// The opaque that the reply must echo.
    pub opaque: Option<Opaque>,
    /// Whether a miss echoes the opaque too. Servers before 1.6.18 do not.
    pub opaque_on_miss: bool,
    /// Whether success has no reply.
    pub quiet: bool,
}

impl Expect {
    /// A reply in classic syntax, which echoes nothing.
    pub fn classic(form: Form) -> Self {
        Self { form, opaque: None, opaque_on_miss: false, quiet: false }
    }
}

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Meta(Verb),
    /// The next reply while quiet commands are in flight. Its opaque tells which of them it answers.
    Quiet,
    /// `MN`.
    NoOp,
    /// `VALUE` lines, then `END`.
    ClassicGet,
    ClassicStore,
    ClassicDelete,
    ClassicTouch,
    /// The new number on a line by itself.
    ClassicNumber,
    FlushAll,
    /// `STAT` lines, then `END` (or `RESET`).
    Stats,
    Version,
    /// A `CONFIG` line and its value, then `END`.
    ClusterConfig,
}

/// The server does not support the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    pub what: &'static str,
    /// The first version that does; `None` if none does.
    pub since: Option<ServerVersion>,
    pub capabilities: Capabilities,
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.since {
            None => write!(f, "no memcached version takes {}", self.what),
            Some(_) if self.capabilities.is_classic() => write!(
                f,
                "{} needs meta commands; this server is spoken to in classic text, as it refused them like some proxies \
                 do, or as the setting \"protocol\" says",
                self.what
            ),
            Some(since) => {
                write!(f, "{} needs memcached {since} or newer; the server reports ", self.what)?;
                match self.capabilities.version() {
                    Some(version) => write!(f, "{version}"),
                    None => f.write_str(
                        "a version that could not be read: if it takes meta commands, set \"protocol\" to \"meta\"",
                    ),
                }
            }
        }
    }
}

impl std::error::Error for Unsupported {}

/// Appends the request for `command` to `out`, in meta syntax if the server takes it and it does no harm.
///
/// `quiet` asks for no reply on success. It needs meta syntax and [`Command::can_be_quiet`]; otherwise, the reply comes
/// as usual: see [`Expect::quiet`]. On an error, `out` is unchanged.
pub fn encode(
    command: &Command<'_>,
    capabilities: &Capabilities,
    opaque: Opaque,
    quiet: bool,
    out: &mut Vec<u8>,
) -> Result<Expect, Unsupported> {
    if let Some(form) = plain(command, capabilities, out) {
        return Ok(Expect::classic(form));
    }
    if !capabilities.meta() {
        return classic::encode(command, capabilities, out).map(Expect::classic);
    }
    let verb = meta::encode(command, capabilities, out)?;
    let quiet = quiet && command.can_be_quiet();
    push_hex(out, *b" O", opaque.0);
    out.extend_from_slice(if quiet { b" q\r\n" } else { b"\r\n" });
    Ok(Expect { form: Form::Meta(verb), opaque: Some(opaque), opaque_on_miss: capabilities.opaque_on_miss(), quiet })
}

/// Encodes the commands that are the same for every server, and the stores that are safe only in classic text.
fn plain(command: &Command<'_>, capabilities: &Capabilities, out: &mut Vec<u8>) -> Option<Form> {
    match command {
        Command::GetMany { keys, cas, ttl } => {
            out.extend_from_slice(match (ttl, cas) {
                (None, false) => b"get ",
                (None, true) => b"gets ",
                (Some(_), false) => b"gat ",
                (Some(_), true) => b"gats ",
            });
            if let Some(ttl) = ttl {
                push(out, *ttl);
                out.push(b' ');
            }
            out.extend_from_slice(keys);
            out.extend_from_slice(b"\r\n");
            Some(Form::ClassicGet)
        }
        Command::NoOp if capabilities.meta() => {
            out.extend_from_slice(b"mn\r\n");
            Some(Form::NoOp)
        }
        // Older servers have no no-op. Any reply in its place is a barrier too.
        Command::NoOp | Command::Version => {
            out.extend_from_slice(b"version\r\n");
            Some(Form::Version)
        }
        Command::FlushAll { delay } => {
            out.extend_from_slice(b"flush_all");
            if *delay > 0 {
                out.push(b' ');
                push(out, *delay);
            }
            out.extend_from_slice(b"\r\n");
            Some(Form::FlushAll)
        }
        Command::Stats(kind) => {
            out.extend_from_slice(b"stats");
            if !kind.text().is_empty() {
                out.push(b' ');
                out.extend_from_slice(kind.text());
            }
            out.extend_from_slice(b"\r\n");
            Some(Form::Stats)
        }
        Command::ClusterConfig => {
            out.extend_from_slice(b"config get cluster\r\n");
            Some(Form::ClusterConfig)
        }
        Command::Store(store) if store.spares_item() => {
            classic::encode_store(store, out);
            out.extend_from_slice(b"\r\n");
            Some(Form::ClassicStore)
        }
        _ => None,
    }
}
