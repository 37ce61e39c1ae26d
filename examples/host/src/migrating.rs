//! Two pools as one: the core says what to ask of which pool, and this host runs it there.

use std::sync::Arc;

use pinyon_cache::dialect::{Packing, Plain};
use pinyon_cache::migration::{Counts, Crossing, Failing, Next, Pools, Progress, Side, Unconverted, Wanted};
use pinyon_cache::operations::{
    Answer, AsBytes, Beside, Bytes, Changed, DataBlock, Failures, Fetched, KeyRules, OwnedKey, Policy, Request,
};

use crate::cache::{read, written, Block, Cache, Calls, Operation};
use crate::raised::Raised;

pub struct Migrating {
    pub old: Cache,
    pub new: Cache,
    counts: Arc<Counts>,
}

/// The keys and the value of a request, by the conventions of both pools.
struct OfBoth<'m> {
    names: &'m [&'m str],
    block: Block,
    rules: [&'m KeyRules; 2],
    packings: [&'m Packing; 2],
    policies: [Policy; 2],
}

impl Pools for OfBoth<'_> {
    type Key = OwnedKey;
    type Data = Block;
    type Values = AsBytes;

    fn key(&self, side: Side, index: usize) -> OwnedKey {
        OwnedKey::new(self.rules[side as usize], self.names[index].as_bytes()).expect("it was checked")
    }

    fn data(&self) -> Block {
        self.block.clone()
    }

    fn values(&self, _side: Side) -> AsBytes {
        AsBytes
    }

    fn policy(&self, side: Side) -> Policy {
        self.policies[side as usize]
    }

    fn convert(&mut self, value: &Bytes) -> Result<DataBlock<Block>, Unconverted> {
        let value = read(self.packings[Side::Old as usize], value.clone()).map_err(|_| Unconverted::Refused)?;
        let written = written(self.packings[Side::New as usize], &value).map_err(|_| Unconverted::Refused)?;
        Ok(DataBlock { size: written.0.len(), data: Block::Copied(written.0), client_flags: written.1 })
    }
}

impl Migrating {
    pub fn new(old: Cache, new: Cache) -> Self {
        Self { old, new, counts: Arc::default() }
    }

    pub fn progress(&self) -> Progress {
        self.counts.progress()
    }

    /// The values that were found, by the indexes of their keys.
    pub fn get_many(&mut self, keys: &[&str]) -> Result<Vec<Option<Plain>>, Raised> {
        let over = self.run(
            Wanted::GetMany { each: Request::Get(Beside::Nothing), failing: Failing::Ends },
            keys,
            Block::Nothing,
        )?;
        let mut values = vec![None; keys.len()];
        for (side, operation) in over {
            let Operation::Fetch(fetch) = operation else { unreachable!("it read many keys") };
            let Fetched { found, mut failures, .. } = fetch.finish();
            raise(&mut failures)?;
            for one in found {
                values[one.index] = Some(read(self.packing_of(side), one.value)?);
            }
        }
        Ok(values)
    }

    /// Returns the number of deleted items.
    pub fn delete_many(&mut self, keys: &[&str]) -> Result<usize, Raised> {
        let over = self.run(Wanted::ChangeMany(Request::Delete), keys, Block::Nothing)?.pop();
        let Some((_, Operation::Change(change))) = over else { unreachable!("it deleted many keys") };
        let Changed { done, mut failures } = change.finish();
        raise(&mut failures)?;
        Ok(done.iter().filter(|done| **done).count())
    }

    pub fn close(&mut self) {
        self.old.close();
        self.new.close();
    }

    fn packing_of(&self, side: Side) -> &Packing {
        match side {
            Side::Old => &self.old.packing,
            Side::New => &self.new.packing,
        }
    }

    /// Runs a request on both pools. Returns what it came to.
    fn run(&mut self, wanted: Wanted, names: &[&str], block: Block) -> Result<Vec<(Side, Operation)>, Raised> {
        let (old, new) = (&mut self.old, &mut self.new);
        for name in names {
            OwnedKey::new(&old.keys, name.as_bytes())?;
            OwnedKey::new(&new.keys, name.as_bytes())?;
        }
        let (rules, packings) = ([&old.keys, &new.keys], [&old.packing, &new.packing]);
        let pools = OfBoth { names, block, rules, packings, policies: [old.policy, new.policy] };
        let mut crossing = Crossing::new(pools, wanted, names.len(), self.counts.clone(), None);
        let mut next = crossing.begin();
        while let Next::Run(side, operation) = next {
            let way = if side == Side::Old { &mut old.way } else { &mut new.way };
            next = crossing.ran(way.carry_out(operation));
        }
        Ok(crossing.finish().1)
    }
}

impl Calls for Migrating {
    fn ask(&mut self, key: &str, request: Request, block: Block) -> Result<Answer<Plain>, Raised> {
        let over = self.run(Wanted::One(request), &[key], block)?.pop();
        let Some((side, Operation::Single(mut single))) = over else { unreachable!("it was about one key") };
        single.take_answer()?.read(|bytes| read(self.packing_of(side), bytes).map(Some))
    }

    fn packing(&self) -> &Packing {
        &self.new.packing
    }
}

fn raise(failures: &mut Failures) -> Result<(), Raised> {
    failures.raised().map_or(Ok(()), |error| Err(error.into()))
}
