//! The lanes of several machines as those of one.

use pinyon_net::driven::Order;

/// The order of one of several machines, with the host's number for its lane.
pub fn renumbered(lanes: &mut Vec<Option<(usize, usize)>>, machine: usize, order: Order) -> Order {
    match order {
        Order::Watch { lane, fd, write } => {
            let known = lanes.iter().position(|known| *known == Some((machine, lane)));
            let lane = known.unwrap_or_else(|| place(lanes, (machine, lane)));
            Order::Watch { lane, fd, write }
        }
        Order::Forget { lane, fd } => {
            let known = lanes.iter().position(|known| *known == Some((machine, lane)));
            let Some(lane) = known else { unreachable!("only what is watched is forgotten") };
            lanes[lane] = None;
            Order::Forget { lane, fd }
        }
        other => other,
    }
}

/// Puts something where nothing is. Returns where.
pub fn place<T>(all: &mut Vec<Option<T>>, one: T) -> usize {
    match all.iter().position(Option::is_none) {
        Some(vacant) => {
            all[vacant] = Some(one);
            vacant
        }
        None => {
            all.push(Some(one));
            all.len() - 1
        }
    }
}
