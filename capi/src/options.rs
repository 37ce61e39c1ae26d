//! Settings from named texts. The core reads and checks them.

use std::ffi::{c_char, CStr, CString};
use std::sync::{Arc, OnceLock};

use pinyon_cache::settings::{CompressionSettings, NearSettings};
use pinyon_net::json;
use pinyon_net::settings::{speak, Described, Given, NamedSettings, Words};
use pinyon_net::tls::{Tls, TlsSettings};

use crate::credentials::source;
use crate::errors::{c_string, Error, Failure};
use crate::exported::exported;
use crate::structs::{list, missing, NamedText};

/// C's words, and Perl's.
const WORDS: Words = Words {
    nothing: "NULL",
    yes: "true",
    no: "false",
    flag: "a boolean",
    whole: "a whole number",
    number: "a floating-point number",
    text: "a string",
    bytes: "a string that is not UTF-8",
    both: "a string",
    list: "several values",
    plain: "bytes, text, numbers, booleans, null, lists and maps",
    tls: "further options of TLS",
    compression: "further options of compression",
    near: "further options of near",
    function: "a source of credentials",
};

/// The values of one setting, in the order in which they were given.
type Named<'o> = (&'o str, Vec<&'o [u8]>);

/// Options as the caller passed them, by name.
pub struct Options<'o>(Vec<Named<'o>>);

impl<'o> Options<'o> {
    /// # Safety
    /// The pointer is null, or to so many options, whose names and values stay as they are for the lifetime.
    pub unsafe fn new(options: *const NamedText, count: usize) -> Result<Self, Error> {
        // SAFETY: the caller has so many options, and keeps their names and values as they are for the lifetime.
        let options = unsafe { list(options, count, "pinyon_option") }?;
        speak(&WORDS);
        let mut all = Self(Vec::new());
        for NamedText { name, value } in options {
            if name.is_null() {
                return Err(missing("name of an option"));
            }
            // SAFETY: the caller has so many options, and keeps their names and values as they are for the lifetime.
            let (name, value) = unsafe { (CStr::from_ptr(*name), value.given()) };
            let name = name.to_str().map_err(|_| Failure::usage("the name of an option is not UTF-8"))?;
            all.add(name, value);
        }
        Ok(all)
    }

    fn add(&mut self, name: &'o str, value: Option<&'o [u8]>) {
        let values = match self.0.iter().position(|(known, _)| *known == name) {
            Some(place) => &mut self.0[place].1,
            None => {
                self.0.push((name, Vec::new()));
                &mut self.0[..].last_mut().expect("it was pushed").1
            }
        };
        values.extend(value);
    }

    /// Takes an option that this interface reads itself.
    pub fn take(&mut self, name: &str) -> Option<&'o [u8]> {
        let place = self.0.iter().position(|(known, _)| *known == name)?;
        self.0.remove(place).1.pop()
    }

    /// Takes an option that is on or off.
    pub fn take_flag(&mut self, name: &str) -> Result<bool, Error> {
        match self.take(name).map(is_on) {
            None => Ok(false),
            Some(Some(is_on)) => Ok(is_on),
            Some(None) => Err(Failure::usage(format!("{name} must be true or false, not a string"))),
        }
    }

    /// Takes the options whose names begin with this one and a dot.
    fn take_below(&mut self, name: &str) -> Self {
        let below = |full: &'o str| full.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        let (taken, kept) = self.0.drain(..).partition(|(full, _)| below(full).is_some());
        self.0 = kept;
        let taken: Vec<Named<'o>> = taken;
        Self(taken.into_iter().map(|(full, values)| (below(full).unwrap_or(full), values)).collect())
    }

    /// Fills settings. An option without a value is only checked for its name.
    pub fn fill<S: NamedSettings>(mut self, settings: &mut S) -> Result<(), Error> {
        let [tls, compression, near] = ["tls", "compression", "near"].map(|name| match S::has(name) {
            true => self.take_below(name),
            false => Self(Vec::new()),
        });
        if let Some(given) = self.tls(tls)? {
            settings.set("tls", given)?;
        }
        if let Some(given) = self.compression(compression)? {
            settings.set("compression", given)?;
        }
        if let Some(given) = self.near(near)? {
            settings.set("near", given)?;
        }
        for (name, values) in &self.0 {
            if let Some(name) = name.strip_suffix(".function") {
                S::check_name(name)?;
                let [value] = values[..] else { return Err(missing("pinyon_credentials_source")) };
                settings.set(name, Given::Function(source(value)?))?;
                continue;
            }
            S::check_name(name)?;
            match &values[..] {
                [] => {}
                [value] => settings.set(name, text(value))?,
                several => settings.set(name, Given::List(several.iter().map(|value| text(value)).collect()))?,
            }
        }
        Ok(())
    }

    /// TLS with further settings, unless it is off.
    fn tls(&mut self, more: Self) -> Result<Option<Given<'o>>, Error> {
        if more.0.is_empty() || self.is_off("tls") {
            return Ok(None);
        }
        self.take("tls");
        let mut settings = TlsSettings::default();
        more.fill(&mut settings)?;
        let tls = Tls::new(&settings).map_err(pinyon_net::invalid::InvalidArgument::from)?;
        Ok(Some(Given::Tls(Arc::new(tls))))
    }

    /// Compression with further settings, unless it is off.
    fn compression(&mut self, mut more: Self) -> Result<Option<Given<'o>>, Error> {
        if more.0.is_empty() || self.is_off("compression") {
            return Ok(None);
        }
        let mut settings = CompressionSettings::default();
        match self.take("compression") {
            Some(algorithm) if is_on(algorithm).is_none() => settings.set("algorithm", text(algorithm))?,
            _ => {}
        }
        if let Some(place) = more.0.iter().position(|(name, _)| *name == "dictionaries") {
            let dictionaries = more.0.remove(place).1.into_iter().map(Given::Bytes).collect();
            settings.set("dictionaries", Given::List(dictionaries))?;
        }
        more.fill(&mut settings)?;
        settings.check().map_err(pinyon_net::invalid::InvalidArgument::from)?;
        Ok(Some(Given::Compression(Arc::new(settings))))
    }

    /// Hot keys in memory with further settings, unless they are off.
    fn near(&mut self, more: Self) -> Result<Option<Given<'o>>, Error> {
        if more.0.is_empty() || self.is_off("near") {
            return Ok(None);
        }
        self.take("near");
        let mut settings = NearSettings::default();
        more.fill(&mut settings)?;
        settings.check()?;
        Ok(Some(Given::Near(Arc::new(settings))))
    }

    fn is_off(&self, name: &str) -> bool {
        let values = self.0.iter().find(|(known, _)| *known == name).map(|(_, values)| values);
        values.and_then(|values| values.last()).is_some_and(|value| is_on(value) == Some(false))
    }
}

fn text(value: &[u8]) -> Given<'_> {
    std::str::from_utf8(value).map_or(Given::Bytes(value), Given::Untyped)
}

/// The words for booleans are those of the core.
fn is_on(value: &[u8]) -> Option<bool> {
    match value {
        b"1" | b"true" | b"yes" | b"on" => Some(true),
        b"" | b"0" | b"false" | b"no" | b"off" => Some(false),
        _ => None,
    }
}

exported! {
    fn pinyon_settings() -> *const c_char {
        static ALL: OnceLock<CString> = OnceLock::new();
        let all = ALL.get_or_init(|| {
            let crates = [
                pinyon_cache::settings::described(),
                pinyon_locks::settings::described(),
                pinyon_net::settings::described(),
            ];
            c_string(&json::object(["defaults", "texts", "choices"].into_iter().zip(Described::joined(crates))))
        });
        all.as_ptr()
    }
}
