//! A function for credentials whose questions a test answers.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::{Credentials, Function, Question, Questions, Supplied};

/// Leaves its questions to the test.
#[derive(Default)]
pub struct Left(pub Questions);

impl Function for Left {
    fn ask(&self, question: Question) {
        self.0.leave(question);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn by(function: &Arc<Left>) -> Arc<dyn Function> {
    function.clone()
}

pub fn password_of(function: &Arc<Left>) -> Arc<Credentials> {
    let credentials = Credentials::new(Some("app".into()), Some(Supplied::By(by(function))), PATIENCE);
    credentials.expect("one of them is a function")
}
