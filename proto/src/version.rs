//! What a server supports, by the version that it reports.

/// A memcached version such as `1.6.18`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion {
    pub major: u16,
    pub minor: u16,
    pub patch: u16,
}

impl ServerVersion {
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// Reads the text after `VERSION `: three numbers, then anything (`1.6.18_7_gdeadbee`, `1.4.25 Ubuntu`). Returns
    /// `None` if it does not begin with three numbers, as with some proxies.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.splitn(3, |byte| *byte == b'.');
        let major = leading_number(parts.next()?)?;
        let minor = leading_number(parts.next()?)?;
        let patch = leading_number(parts.next()?)?;
        Some(Self { major, minor, patch })
    }
}

impl std::fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

fn leading_number(text: &[u8]) -> Option<u16> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// Meta commands in their final syntax (`HD`, `ms key length`). Versions 1.6.0 to 1.6.9 had an earlier one.
pub(crate) const META: ServerVersion = ServerVersion::new(1, 6, 10);
/// `EN` carries the opaque and the key.
pub(crate) const OPAQUE_ON_MISS: ServerVersion = ServerVersion::new(1, 6, 18);
/// `N` with append and prepend, `s` on `ms`.
pub(crate) const STORE_VIVIFY: ServerVersion = ServerVersion::new(1, 6, 20);
/// `C` on `mg`.
pub(crate) const CONDITIONAL_GET: ServerVersion = ServerVersion::new(1, 6, 40);

/// What may be sent to a server. A server refuses flags that it does not know, so each flag depends on the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    version: Option<ServerVersion>,
    /// Whether to send only classic text, whatever the version.
    classic: bool,
    meta: bool,
    opaque_on_miss: bool,
}

impl Capabilities {
    /// `None`: a version that could not be read. Such a server gets only classic text.
    pub fn of(version: Option<ServerVersion>) -> Self {
        let since = |first| version.is_some_and(|version| version >= first);
        let (meta, opaque_on_miss) = (since(META), since(OPAQUE_ON_MISS));
        Self { version, classic: false, meta, opaque_on_miss }
    }

    /// For a server that gets only classic text, whatever its version: it may be behind a proxy.
    pub fn classic(version: Option<ServerVersion>) -> Self {
        Self { version, classic: true, meta: false, opaque_on_miss: false }
    }

    /// For a server that takes meta commands although its version could not be read.
    pub fn meta_of_unknown_version() -> Self {
        Self::of(Some(META))
    }

    /// Whether meta commands are avoided although the version has them.
    pub fn is_classic(&self) -> bool {
        self.classic
    }

    pub fn version(&self) -> Option<ServerVersion> {
        self.version
    }

    /// Whether the server takes meta commands in their final syntax.
    pub fn meta(&self) -> bool {
        self.meta
    }

    /// Whether a meta miss echoes the opaque, so that even a miss can be verified.
    pub fn opaque_on_miss(&self) -> bool {
        self.opaque_on_miss
    }

    /// Whether a meta get can leave out a value that the caller has ([`Flag::CompareCas`](crate::Flag::CompareCas)).
    pub fn conditional_get(&self) -> bool {
        self.since(CONDITIONAL_GET)
    }

    pub(crate) fn since(&self, version: ServerVersion) -> bool {
        !self.classic && self.version.is_some_and(|have| have >= version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_suffixes_are_read_and_nonsense_is_not() {
        assert_eq!(ServerVersion::parse(b"1.6.18"), Some(ServerVersion::new(1, 6, 18)));
        assert_eq!(ServerVersion::parse(b"1.4.25 Ubuntu"), Some(ServerVersion::new(1, 4, 25)));
        assert_eq!(ServerVersion::parse(b"1.6.40_3_gabc"), Some(ServerVersion::new(1, 6, 40)));
        for nonsense in [&b""[..], b"1.6", b"mcrouter", b"..", b"99999.1.1"] {
            assert_eq!(ServerVersion::parse(nonsense), None);
        }
    }

    #[test]
    fn an_unknown_version_is_spoken_to_in_classic_text() {
        assert!(!Capabilities::of(None).meta());
        assert!(!Capabilities::of(Some(ServerVersion::new(1, 6, 9))).meta());
        assert!(Capabilities::of(Some(ServerVersion::new(1, 6, 10))).meta());
    }
}
