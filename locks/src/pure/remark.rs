//! What is said about locks: the same commands as beside scripts.

use pinyon_proto::resp::{Command, Value};

use super::replies::{first_error, unexpected};
use super::{Pure, Stage};
use crate::call::Call;
use crate::remark;

impl Pure {
    pub(super) fn remark(&mut self, id: u64, call: Call) {
        let mut command = Command::default();
        remark::encode(&call, &self.keys, &mut command);
        self.send(Stage::Remark { id, call }, vec![command]);
    }

    pub(super) fn remarked(&mut self, id: u64, call: &Call, mut replies: Vec<Value>) {
        let answer = match first_error(&mut replies) {
            Some(error) => Err(error),
            None => replies.first().and_then(|reply| remark::decode(call, reply)).ok_or_else(|| unexpected(&replies)),
        };
        self.answers.push((id, answer));
    }
}
