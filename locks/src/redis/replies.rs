//! Turns arrived bytes into events.

use pinyon_proto::resp::{Decoded, Malformed, Value};

use super::info::Protocol;
use super::{RespEvent, RespSession};
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::Network;

/// The first words of the messages that a subscribed connection receives as arrays in RESP2.
const MESSAGES: [&str; 9] = [
    "message",
    "pmessage",
    "smessage",
    "subscribe",
    "unsubscribe",
    "psubscribe",
    "punsubscribe",
    "ssubscribe",
    "sunsubscribe",
];

impl<N: Network> RespSession<N> {
    /// The next event, or `None` if more bytes must arrive first.
    #[allow(clippy::should_implement_trait)] // the same name as in memcached's session
    pub fn next(&mut self) -> Option<RespEvent> {
        loop {
            if let Some((ticket, error)) = self.expired.pop_front() {
                return Some(RespEvent::Failed(ticket, error));
            }
            if let Some(trouble) = self.renewal.as_mut().and_then(|renewal| renewal.take_trouble()) {
                return Some(RespEvent::Troubled(trouble));
            }
            if let Some(error) = self.connection.failure() {
                let error = error.clone();
                return self.next_failed(error);
            }
            if !self.is_ready() {
                return None;
            }
            if !std::mem::replace(&mut self.announced, true) {
                return Some(RespEvent::Ready);
            }
            let handed = match self.decode() {
                Ok(None) => match self.looked_at.take() {
                    Some(now) => {
                        self.expire(now);
                        continue;
                    }
                    None => return None,
                },
                Ok(Some(decoded)) => self.hand_out(decoded),
                Err(malformed) => Err(malformed),
            };
            match handed {
                Ok(Some(event)) => return Some(event),
                Ok(None) => {}
                Err(malformed) => {
                    self.out_of_step(&malformed);
                }
            }
        }
    }

    /// Whether a value has arrived in part. The rest should be received at once.
    pub(super) fn is_amid_value(&mut self) -> bool {
        if !self.is_ready() || self.arrived.is_some() || self.reader.is_between_values() {
            return false;
        }
        match self.decode() {
            Ok(decoded) => self.arrived = decoded,
            Err(malformed) => {
                self.out_of_step(&malformed);
                return false;
            }
        }
        self.arrived.is_none()
    }

    /// Breaks the connection: the start of the next reply is unknown. Bytes that may contain the password are not
    /// quoted.
    fn out_of_step(&mut self, malformed: &Malformed) {
        let message = match self.settings.password {
            Some(_) => malformed.what.to_owned(),
            None => malformed.to_string(),
        };
        self.fail(Error::new(Kind::Protocol, self.connection.server(), message));
    }

    fn decode(&mut self) -> Result<Option<Decoded>, Malformed> {
        if let Some(decoded) = self.arrived.take() {
            return Ok(Some(decoded));
        }
        let (consumed, decoded) = self.reader.read(self.incoming.bytes())?;
        self.incoming.consume(consumed);
        Ok(decoded)
    }

    /// Finds the recipient of a value; `None` if there is none.
    fn hand_out(&mut self, decoded: Decoded) -> Result<Option<RespEvent>, Malformed> {
        match decoded {
            Decoded::Push(values) => Ok(self.push(values)),
            Decoded::Reply(Value::Array(values)) if self.is_subscriber_only() && is_message(&values) => {
                Ok(self.push(values))
            }
            Decoded::Reply(Value::Array(values)) if self.is_confirmed_by(&values) => {
                // The server has accepted RESP3, but confirms subscriptions as in RESP2.
                self.info.protocol = Protocol::Resp2;
                Ok(self.push(values))
            }
            Decoded::Reply(value) => self.reply(value),
        }
    }

    /// Whether this confirms the subscription that is next.
    fn is_confirmed_by(&self, values: &[Value]) -> bool {
        let awaited = self.queue.front().and_then(|front| front.confirmations.as_ref());
        awaited.is_some_and(|awaited| begins_with(values, awaited.kind))
    }

    fn reply(&mut self, value: Value) -> Result<Option<RespEvent>, Malformed> {
        let Some(front) = self.queue.front() else {
            return Err(unexpected("the server sent a reply that no request asked for", &value));
        };
        if front.confirmations.is_some() && !matches!(value, Value::Error(_)) {
            return Err(unexpected("expected the confirmation of a subscription", &value));
        }
        Ok(self.finish(value))
    }

    /// Passes a push to the host, unless it confirms the subscription that is next.
    fn push(&mut self, values: Vec<Value>) -> Option<RespEvent> {
        let awaited = self.queue.front_mut().and_then(|front| front.confirmations.as_mut());
        let Some(confirmations) = awaited.filter(|awaited| begins_with(&values, awaited.kind)) else {
            return Some(RespEvent::Pushed(values));
        };
        confirmations.missing -= 1;
        match confirmations.missing {
            0 => self.finish(Value::Array(values)),
            _ => None,
        }
    }

    fn finish(&mut self, value: Value) -> Option<RespEvent> {
        let exchange = self.queue.pop_front()?;
        if exchange.abandoned {
            self.take_unawaited(exchange.ticket, &value);
            return None;
        }
        Some(RespEvent::Reply(exchange.ticket, value))
    }

    /// Fails an exchange of a broken connection. Call it until none is left.
    fn next_failed(&mut self, error: Error) -> Option<RespEvent> {
        loop {
            let exchange = self.queue.pop_front()?;
            if !exchange.abandoned {
                let sent = exchange.sent(self.outgoing.position());
                return Some(RespEvent::Failed(exchange.ticket, error.of("", sent)));
            }
        }
    }
}

fn is_message(values: &[Value]) -> bool {
    MESSAGES.iter().any(|kind| begins_with(values, kind))
}

fn begins_with(values: &[Value], kind: &str) -> bool {
    match values.first() {
        Some(Value::Bytes(text) | Value::Status(text)) => **text == *kind.as_bytes(),
        _ => false,
    }
}

fn unexpected(what: &'static str, value: &Value) -> Malformed {
    match value {
        Value::Bytes(text) | Value::Status(text) | Value::BigNumber(text) => Malformed::new(what, text),
        Value::Error(error) => Malformed::new(what, error.to_string().as_bytes()),
        Value::Array(values) | Value::Set(values) => {
            Malformed::new(what, format!("an aggregate of {} values", values.len()).as_bytes())
        }
        Value::Map(pairs) => Malformed::new(what, format!("a map of {} pairs", pairs.len()).as_bytes()),
        scalar => Malformed::new(what, format!("{scalar:?}").as_bytes()),
    }
}
