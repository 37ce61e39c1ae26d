//! Takes permits of a rate.

use pinyon_proto::resp::Value;

use super::{parts, Acts, Pure, Then};
use crate::call::{Name, ScriptAnswer};
use crate::rate::Level;

impl Pure {
    /// `value`: that of the rate's key, unless another call of the section has changed it.
    pub(super) fn rate(
        &self,
        name: &Name,
        [cost, most, ticks]: [u64; 3],
        value: Option<&Value>,
        now: u64,
        acts: &mut Acts,
    ) -> Then {
        let stored = acts.levels.get(name).copied().or_else(|| match value {
            Some(Value::Bytes(text)) => Level::parse(text),
            _ => None,
        });
        let (level, went_back) = Level::at(stored, now, ticks);
        let (taken, level) = level.take(cost, most);
        if taken || went_back {
            let (text, lasts) = (level.to_string(), level.lasts().as_millis().to_string());
            let key = self.keys.rate(name);
            acts.commands.push(parts(&[b"SET", &key, text.as_bytes(), b"PX", lasts.as_bytes()]));
            acts.levels.insert(name.clone(), level);
        }
        Then::ScriptAnswer(ScriptAnswer::Rated { taken, ahead: level.ahead })
    }
}
