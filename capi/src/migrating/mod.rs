//! A client that stands for an old and a new pool. The core decides what an operation does on which.
//!
//! It is a `pinyon_client` like others, so hosts need nothing new. A request becomes operations on one pool or on both.

pub mod given;
pub mod many;

use crate::client::{Client, Migrating};
use crate::exported::exported;
use crate::guard::with;
use crate::structs::{empty, given, to_fill, Migration, Progress};

exported! {
    fn pinyon_client_migrating(
        old_client: &Client, new_client: *const Client, migration: *const Migration
    ) -> Result<*mut Client> {
        with(new_client, |new_client| {
            let migration = if migration.is_null() { empty() } else { given(migration)? };
            Ok(new_client.migrating(Migrating::new(old_client, new_client, &migration)?))
        })
    }

    fn pinyon_client_progress(client: &Client, progress: *mut Progress) -> bool {
        let progress = to_fill(progress)?;
        let counted = client.migrating.as_ref().map(|migrating| migrating.counts.progress());
        counted.inspect(|counted| {
            let size = progress.size;
            let (in_new, in_old) = (counted.new, counted.old);
            let (moved, refused, missing) = (counted.moved, counted.refused, counted.missing);
            *progress = Progress { size, in_new, in_old, moved, refused, missing };
        }).is_some()
    }
}
