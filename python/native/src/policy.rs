//! What an operation does whose server is down or fails.

pub(crate) use pinyon_core::settings::Policy;
