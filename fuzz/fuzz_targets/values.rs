//! Any stored bytes: in every dialect they give a value within limits, or an error. Plain data survives every notation,
//! and what is read from MessagePack and JSON can be written again.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pinyon_cache::compression::{Algorithm, Compressor, Decompressor, Settings};
use pinyon_cache::dialect::{Dialect, Notation, Plain};

const LIMIT: usize = 1 << 16;
const OWN: [Notation; 2] = [Notation::MessagePack, Notation::Json];
const NOTATIONS: [Notation; 6] =
    [Notation::Ruby, Notation::Perl, Notation::Php, Notation::Python, Notation::MessagePack, Notation::Json];

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    flags: u32,
    stored: &'a [u8],
    tree: Tree,
    cut: u16,
    changed: u8,
}

#[derive(Arbitrary, Debug)]
enum Tree {
    Null,
    Integer(i64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// Without lists that PHP reads as maps, or the reverse, and without numbers that Perl does not keep as numbers.
    fn plain(&self) -> Plain {
        match self {
            Tree::Null => Plain::Null,
            Tree::Integer(number) => Plain::Integer(i64::from(*number as i32)),
            Tree::Text(text) => Plain::Text(text.clone()),
            Tree::List(items) => Plain::List(items.iter().map(Tree::plain).collect()),
            Tree::Map(pairs) => {
                let mut pairs: Vec<_> =
                    pairs.iter().map(|(key, value)| (Plain::Text(key.clone()), value.plain())).collect();
                pairs.insert(0, (Plain::Text(String::new()), Plain::Null));
                Plain::Map(pairs)
            }
        }
    }

    fn depth(&self) -> usize {
        1 + match self {
            Tree::List(items) => items.iter().map(Tree::depth).max().unwrap_or_default(),
            Tree::Map(pairs) => pairs.iter().map(|(_, value)| value.depth()).max().unwrap_or_default(),
            _ => 0,
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    let reader = Decompressor::new(LIMIT, []).expect("no dictionaries");
    for dialect in Dialect::ALL {
        let flags = input.flags;
        let whole = match dialect.is_compressed(flags) {
            true => dialect.decompress(flags, input.stored, &reader),
            false => Ok(input.stored.to_vec()),
        };
        let Ok(whole) = whole else { continue };
        assert!(whole.len() <= LIMIT.max(input.stored.len()));
        let _ = dialect.decode(dialect.inside(flags), &whole);
    }
    for notation in NOTATIONS {
        let _ = notation.read(input.stored);
    }
    for notation in OWN {
        // The limit on nesting is higher for reading than for writing.
        if let Some(Ok(written)) = notation.read(input.stored).ok().map(|read| notation.write(&read)) {
            let again = notation.read(&written).and_then(|read| notation.write(&read));
            assert_eq!(again, Ok(written));
        }
    }
    for algorithm in Algorithm::ALL {
        let _ = reader.decompress_as(algorithm, input.stored);
        let settings = Settings { algorithm, level: Some(1), threshold: 0, minimum_gain: 0.0 };
        let compressor = Compressor::new(settings, None).expect("settings that make sense");
        if let Some(compressed) = compressor.compress(input.stored).expect("bytes are compressed") {
            assert_eq!(reader.decompress(&compressed).as_deref(), Ok(input.stored));
        }
    }
    if input.tree.depth() > 40 {
        return;
    }
    let plain = Plain::List(vec![input.tree.plain()]);
    for notation in NOTATIONS {
        let mut written = notation.write(&plain).expect("plain data");
        assert_eq!(notation.read(&written).as_ref(), Ok(&plain));
        let cut = usize::from(input.cut) % written.len();
        let _ = notation.read(&written[..cut]);
        written[cut] = input.changed;
        let _ = notation.read(&written);
    }
});
