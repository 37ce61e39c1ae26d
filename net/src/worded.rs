//! Words for the variants of an enum: front ends read the core's choices by them, and C as texts of its own.

/// Defines enums and the word of each variant. C may number variants by their places, so a new one comes last.
#[doc(hidden)]
#[macro_export]
macro_rules! worded {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident { $($(#[doc = $of:literal])* $variant:ident = $word:literal,)* }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name {
                $($(#[doc = $of])* $variant,)*
            }

            impl $name {
                pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

                /// The variant of a word.
                pub fn named(word: &str) -> Option<Self> {
                    Self::ALL.into_iter().find(|one| one.word() == word)
                }

                pub fn word(self) -> &'static str {
                    self.c_word().to_str().unwrap_or_default()
                }

                /// Its word as C has it.
                pub fn c_word(self) -> &'static std::ffi::CStr {
                    match self {
                        $(Self::$variant => $word,)*
                    }
                }
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    worded! {
        Colour { Red = c"red", Green = c"green", }
        /// What has one variant.
        Only { One = c"one", }
    }

    #[test]
    fn each_variant_has_its_word_and_each_word_its_variant() {
        assert_eq!(Colour::ALL, [Colour::Red, Colour::Green]);
        assert!(Colour::ALL.into_iter().all(|colour| Colour::named(colour.word()) == Some(colour)));
        assert_eq!((Colour::Green.word(), Colour::Green.c_word()), ("green", c"green"));
        assert_eq!((Colour::named("blue"), Only::named("one")), (None, Some(Only::One)));
    }
}
