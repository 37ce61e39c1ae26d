//! Commands for many keys or all servers, given to the event loop's driver.

use std::sync::Arc;

use pinyon_core::fleet::Choice;
use pinyon_proto::Mode;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::Client;
use crate::keys::key_bytes;
use crate::loops::Caller;
use crate::many::{distribute, Block, Keys};
use crate::operations::{About, Everywhere, Gather, Gathered, Line, Op, SentKey, Single, Target};
use crate::policy::Policy;
use crate::requests::{Answer, Request, Shape};
use crate::shared::Driver;
use crate::ttl::Ttl;
use crate::values::Kept;

/// Keys of one `get` line: their server, their text and which they are.
struct Chunk {
    choice: Choice,
    text: Vec<u8>,
    keys: Vec<usize>,
}

impl Client {
    pub(crate) fn gather_values<'py>(
        &self,
        py: Python<'py>,
        keys: Keys<'py>,
        failed: Option<Bound<'py, PyDict>>,
        name: &'static str,
        cas: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let caller = self.caller(py)?;
        let waiter = caller.waiter()?;
        let fleet = caller.driver.get().fleet(py)?;
        let is_alone = |index: &u32| !fleet.is_known() || keys.is_base64(*index as usize);
        let (alone, joined): (Vec<u32>, Vec<u32>) = (0..keys.len() as u32).partition(is_alone);
        let (parts, down) = distribute(&fleet, self.policy.failover, &keys, joined)?;
        let mut chunks = Vec::new();
        for part in &parts {
            let mut first = 0;
            while first < part.keys.len() {
                let mut text = Vec::new();
                let end = keys.join(&part.keys, first, &mut text);
                let of_line = part.keys[first..end].iter().map(|index| *index as usize).collect();
                chunks.push(Chunk { choice: part.choice, text, keys: of_line });
                first = end;
            }
        }
        let open = chunks.len() + alone.len();
        let values = Gathered::Values { found: PyDict::new(py).unbind(), failed: failed.map(Bound::unbind) };
        let gather = Gather::new(waiter.clone_ref(py), name, self.policy, keys.unbound(), open, values);
        down.into_iter().for_each(|error| {
            fleet.unsubmitted(&error, "get_many");
            gather.fail(py, error);
        });
        let line = |Chunk { choice, text, keys }| {
            let (codec, routing) = (self.codec.clone(), self.routing);
            let in_doubt = Vec::new();
            Op::Line(Line { codec, routing, choice, text, keys, cas, in_doubt, gather: gather.clone() }.into())
        };
        let mut operations: Vec<Op> = chunks.into_iter().map(line).collect();
        for index in alone {
            let (request, shape) = (Request::Get { cas }, Shape::found(cas));
            operations.push(self.member(py, &keys, index as usize, request, shape, Kept::Nothing, &gather)?);
        }
        caller.driver.get().start_all(py, operations, &gather)?;
        caller.wait(waiter, self.submits_only)
    }

    pub(crate) fn gather_stored<'py>(
        &self,
        py: Python<'py>,
        keys: &Keys<'py>,
        blocks: &[Block<'_>],
        Ttl(ttl): Ttl,
    ) -> PyResult<Bound<'py, PyAny>> {
        let caller = self.caller(py)?;
        let waiter = caller.waiter()?;
        let known = Gathered::Stored(vec![false; keys.len()]);
        let gather = Gather::new(waiter.clone_ref(py), "set_many", self.policy, keys.unbound(), keys.len(), known);
        let store = |(index, block): (usize, &Block<'_>)| {
            let Block { size, client_flags, .. } = *block;
            let request = Request::Store { mode: Mode::Set, size, client_flags, ttl, cas: None };
            self.member(py, keys, index, request, Shape::Done, (&block.data).into(), &gather)
        };
        let operations = blocks.iter().enumerate().map(store).collect::<PyResult<_>>()?;
        caller.driver.get().start_all(py, operations, &gather)?;
        caller.wait(waiter, self.submits_only)
    }

    pub(crate) fn gather_deleted<'py>(&self, py: Python<'py>, keys: &Keys<'py>) -> PyResult<Bound<'py, PyAny>> {
        let caller = self.caller(py)?;
        let waiter = caller.waiter()?;
        let count = Gathered::Deleted(0);
        let gather = Gather::new(waiter.clone_ref(py), "delete_many", self.policy, keys.unbound(), keys.len(), count);
        let delete = |index| self.member(py, keys, index, Request::Delete, Shape::Done, Kept::Nothing, &gather);
        let operations = (0..keys.len()).map(delete).collect::<PyResult<_>>()?;
        caller.driver.get().start_all(py, operations, &gather)?;
        caller.wait(waiter, self.submits_only)
    }

    pub(crate) fn gather_everywhere<'py>(
        &self,
        py: Python<'py>,
        name: &'static str,
        what: &About,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check_open(py)?;
        let caller = self.caller(py)?;
        let waiter = caller.waiter()?;
        let admin = Policy { failover: false, miss: false };
        let answer = match what {
            About::Version => Gathered::Versions(Vec::new()),
            About::Stats(_) => Gathered::Stats(Vec::new()),
            About::FlushAll { .. } => Gathered::Nothing,
        };
        let gather = Gather::new(waiter.clone_ref(py), name, admin, Vec::new(), 1, answer);
        let everywhere = Everywhere { server: None, what: what.clone(), lines: Vec::new(), gather: gather.clone() };
        caller.driver.get().start_all(py, vec![Op::Everywhere(everywhere.into())], &gather)?;
        caller.wait(waiter, self.submits_only)
    }

    /// One key of many, by index.
    #[allow(clippy::too_many_arguments)] // all that an operation is made of
    fn member(
        &self,
        py: Python<'_>,
        keys: &Keys<'_>,
        index: usize,
        request: Request,
        shape: Shape,
        data: Kept,
        gather: &Arc<Gather>,
    ) -> PyResult<Op> {
        let (wire, base64) = keys.wire(index);
        let given = gather.keys[index].bind(py);
        let key = SentKey::new(wire, base64, given, &self.routing.key(given, key_bytes(given)?)?)?;
        let target = Target::Member(gather.clone(), index);
        let (codec, answer, policy) = (self.codec.clone(), Answer::new(shape), self.policy);
        let (alone, longest_ttl, default) = (false, None, None);
        let single = Single { codec, key, request, data, alone, answer, policy, longest_ttl, default, target };
        Ok(Op::Single(single.into()))
    }

    pub(crate) fn caller<'py>(&self, py: Python<'py>) -> PyResult<Caller<'py, Driver>> {
        let Some(loops) = self.loops.get() else { unreachable!("clients that wait by themselves have no driver") };
        loops.caller(py)
    }
}
