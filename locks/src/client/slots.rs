//! The nodes of a cluster and their slots, as the nodes tell them.

use std::sync::{Arc, Mutex};

use foldhash::{HashMap, HashMapExt};
use pinyon_proto::resp::Value;

use pinyon_net::address::Endpoint;

/// How many nodes and ranges of slots a client remembers. A cluster has at most a thousand nodes.
const MOST_NODES: usize = 1024;
const MOST_RANGES: usize = 16384;

/// What is known of a cluster. Clients of the same settings share it: one for each hash tag in use.
#[derive(Clone, Debug, Default)]
pub struct Slots(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    nodes: Vec<Endpoint>,
    ranges: Vec<Range>,
}

/// Slots with the same nodes: the primary, then its replicas.
#[derive(Debug)]
struct Range {
    from: u16,
    to: u16,
    nodes: Box<[u16]>,
}

impl Slots {
    /// Takes the answer of the node `asked` to `CLUSTER SLOTS`, in place of what was known. Ignores an answer that
    /// names no node.
    pub(super) fn learn(&self, told: &Value, asked: &Endpoint) {
        let table = Table::read(told, asked);
        if !table.nodes.is_empty() {
            self.with(|known| *known = table);
        }
    }

    /// The nodes with this slot, as far as known: the primary, then its replicas.
    pub(super) fn of(&self, slot: u16) -> Vec<Endpoint> {
        self.with(|known| {
            let range = known.ranges.iter().find(|range| (range.from..=range.to).contains(&slot));
            range
                .into_iter()
                .flat_map(|range| &range.nodes)
                .map(|node| known.nodes[usize::from(*node)].clone())
                .collect()
        })
    }

    /// Whether a node of the cluster has this address.
    pub(super) fn contains(&self, node: &str) -> bool {
        self.with(|known| known.nodes.iter().any(|one| one.to_string() == node))
    }

    /// `count` of the known nodes, others in each round.
    pub(super) fn some(&self, round: usize, count: usize) -> Vec<Endpoint> {
        self.with(|known| {
            let (nodes, count) = (&known.nodes, count.min(known.nodes.len()));
            (0..count).map(|at| nodes[(round * count + at) % nodes.len()].clone()).collect()
        })
    }

    /// A mutex that a thread held while the process was forked stays locked in the child, which then knows nothing.
    fn with<T: Default>(&self, act: impl FnOnce(&mut Table) -> T) -> T {
        match self.0.try_lock() {
            Ok(mut known) => act(&mut known),
            Err(_) => T::default(),
        }
    }
}

impl Table {
    fn read(told: &Value, asked: &Endpoint) -> Self {
        let mut table = Self::default();
        let mut numbers = HashMap::new();
        let Value::Array(ranges) = told else { return table };
        for range in ranges.iter().take(MOST_RANGES) {
            let Value::Array(range) = range else { continue };
            let [Value::Integer(from), Value::Integer(to), nodes @ ..] = &range[..] else { continue };
            let (Ok(from), Ok(to)) = (u16::try_from(*from), u16::try_from(*to)) else { continue };
            let mut those = Vec::with_capacity(nodes.len().min(8));
            for node in nodes.iter().filter_map(|node| read_node(node, asked)) {
                let next = numbers.len();
                let number = *numbers.entry(node.to_string()).or_insert(next);
                if number == table.nodes.len() && number < MOST_NODES {
                    table.nodes.push(node);
                }
                if number < table.nodes.len() {
                    those.push(number as u16);
                }
            }
            table.ranges.push(Range { from, to, nodes: those.into() });
        }
        table
    }
}

/// A node in an answer to `CLUSTER SLOTS`: its host, its port for the kind of this connection, and more.
fn read_node(told: &Value, asked: &Endpoint) -> Option<Endpoint> {
    let Value::Array(parts) = told else { return None };
    let [host, Value::Integer(port), ..] = &parts[..] else { return None };
    let host = match host {
        Value::Bytes(host) | Value::Status(host) => std::str::from_utf8(host).ok()?,
        Value::Null => "",
        _ => return None,
    };
    node(host, u16::try_from(*port).ok()?, asked)
}

/// The node at a place that the node `asked` has told, in an answer or a redirection. No host means the one that was
/// asked; `?` means that the node has not announced its name yet.
pub(super) fn node(host: &str, port: u16, asked: &Endpoint) -> Option<Endpoint> {
    let host = match (host.trim_matches(['[', ']']), asked) {
        ("?", _) => return None,
        ("", Endpoint::Tcp { host, .. }) => host.clone(),
        ("", Endpoint::Unix(_)) => return None,
        (host, _) => host.to_lowercase(),
    };
    (port > 0).then_some(Endpoint::Tcp { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port }
    }

    fn told(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Integer(port), text("its id"), Value::Array(vec![])])
    }

    fn text(text: &str) -> Value {
        Value::Bytes(text.as_bytes().into())
    }

    fn range(from: i64, to: i64, nodes: Vec<Value>) -> Value {
        Value::Array([Value::Integer(from), Value::Integer(to)].into_iter().chain(nodes).collect())
    }

    #[test]
    fn each_slot_has_its_nodes() {
        let slots = Slots::default();
        assert_eq!((slots.of(7), slots.some(0, 9)), (vec![], vec![]));
        let (a, b) = (told(text("A.example"), 7000), told(text("::1"), 7001));
        let ranges =
            vec![range(0, 99, vec![a.clone(), b.clone()]), range(100, 100, vec![b]), range(101, 16383, vec![a])];
        slots.learn(&Value::Array(ranges), &place("c", 1));
        let (a, b) = (place("a.example", 7000), place("::1", 7001));
        assert_eq!(slots.of(99), [a.clone(), b.clone()]);
        assert_eq!((slots.of(100), slots.of(101)), (vec![b.clone()], vec![a.clone()]));
        assert_eq!((slots.some(0, 9), slots.some(1, 1)), (vec![a, b.clone()], vec![b]));
    }

    #[test]
    fn a_node_without_a_host_is_where_the_one_is_that_was_asked() {
        let asked = place("10.0.0.1", 6379);
        for host in [Value::Null, text("")] {
            let slots = Slots::default();
            slots.learn(&Value::Array(vec![range(0, 9, vec![told(host, 7000)])]), &asked);
            assert_eq!(slots.of(0), [place("10.0.0.1", 7000)]);
        }
        let slots = Slots::default();
        slots.learn(&Value::Array(vec![range(0, 9, vec![told(text("?"), 7000), told(text("b"), 7000)])]), &asked);
        assert_eq!(slots.of(0), [place("b", 7000)], "one that has no name yet is left out");
        assert_eq!(node("", 7000, &Endpoint::Unix("/run/redis".into())), None);
    }

    #[test]
    fn an_answer_that_makes_no_sense_changes_nothing() {
        let slots = Slots::default();
        slots.learn(&Value::Array(vec![range(0, 9, vec![told(text("b"), 7000)])]), &place("a", 1));
        for odd in [
            Value::Null,
            Value::Array(vec![]),
            Value::Array(vec![Value::Null, range(0, 1, vec![])]),
            Value::Array(vec![range(-1, 70_000, vec![told(text("x"), 1)]), range(0, 1, vec![told(text("x"), 70_000)])]),
        ] {
            slots.learn(&odd, &place("a", 1));
            assert_eq!(slots.of(0), [place("b", 7000)]);
        }
    }

    #[test]
    fn a_cluster_of_any_size_is_remembered_within_bounds() {
        let slots = Slots::default();
        let many = (0..3 * MOST_NODES as i64).map(|at| range(at, at, vec![told(text(&format!("n{at}")), 1)]));
        slots.learn(&Value::Array(many.collect()), &place("a", 1));
        assert_eq!(slots.some(0, usize::MAX).len(), MOST_NODES);
        assert_eq!((slots.of(0).len(), slots.of(2000).len()), (1, 0));
    }
}
