//! An actor with a name that logs when it starts, handles a message and stops.

use crate::common::Log;
use pleach::BoxError;
use pleach::prelude::*;

/// Logs `up NAME`, `handled NAME` and `down NAME`. The message `true` succeeds, `false` fails.
pub struct NamedActor {
    name: &'static str,
    log: Log<String>,
    stop_time: Duration,
}

impl NamedActor {
    pub fn props(name: &'static str, log: &Log<String>) -> Props<Self> {
        Self::slow(name, log, Duration::ZERO)
    }

    /// An actor whose `stopped` hook takes this long.
    pub fn slow(name: &'static str, log: &Log<String>, stop_time: Duration) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self { name, log: log.clone(), stop_time }).mailbox(Mailbox::unbounded())
    }
}

impl Actor for NamedActor {
    type Msg = bool;
    type Error = BoxError;

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.log.note(format!("up {}", self.name));
        Ok(())
    }

    async fn handle(&mut self, succeeds: bool, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        if succeeds {
            self.log.note(format!("handled {}", self.name));
            Ok(())
        } else {
            Err("requested failure".into())
        }
    }

    async fn stopped(&mut self, _exit: &Exit, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if !self.stop_time.is_zero() {
            cx.token().child_for(self.stop_time).cancelled().await;
        }
        self.log.note(format!("down {}", self.name));
        Ok(())
    }
}
