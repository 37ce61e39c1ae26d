//! Ruby's Strings: which of them are text, and which are bytes.

use magnus::encoding::{Coderange, EncodingCapable};
use magnus::value::ReprValue;
use magnus::{Error, RString, Ruby};

use crate::errors::{exception, ErrorKind};

/// What a String is to other languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringKind {
    /// Valid UTF-8.
    Text,
    /// Binary.
    Bytes,
}

/// Tells text from bytes. Refuses Strings in other encodings, since no other language could read them.
#[inline]
pub(crate) fn kind_of(ruby: &Ruby, string: RString) -> Result<StringKind, Error> {
    let encoding = string.enc_get();
    if encoding == ruby.utf8_encindex() || encoding == ruby.usascii_encindex() {
        return match string.enc_coderange_scan() {
            Coderange::SevenBit | Coderange::Valid => Ok(StringKind::Text),
            _ => Err(refused(ruby, string, "is not valid")),
        };
    }
    match encoding == ruby.ascii8bit_encindex() {
        true => Ok(StringKind::Bytes),
        false => Err(refused(ruby, string, "is not read by other languages")),
    }
}

#[cold]
fn refused(ruby: &Ruby, string: RString, why: &str) -> Error {
    let shown = match string.funcall::<_, _, String>("inspect", ()) {
        Ok(shown) => shown.chars().take(60).collect::<String>(),
        Err(raised) => return raised,
    };
    let name = string.enc_get();
    let name = magnus::encoding::RbEncoding::from(name);
    let message = format!(
        "a String in {} {why}: {shown}; turn text into UTF-8 with .encode(\"UTF-8\"), or mark bytes as such with .b",
        name.name()
    );
    exception(ruby, ErrorKind::UnsupportedType, &message)
}

/// A new String of text. The bytes may be invalid, as with any String that Ruby reads.
#[inline]
pub(crate) fn text(ruby: &Ruby, bytes: &[u8]) -> RString {
    ruby.enc_str_new(bytes, ruby.utf8_encindex())
}
