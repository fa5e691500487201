//! The actors of the checks.

use core::convert::Infallible;
use core::fmt;
use core::time::Duration;
use embassy_time::Instant;
use pleach_core::{Actor, ActorRef, Context, Reply};

/// Fails where a message asks for it, and counts the others.
#[derive(Default)]
pub struct Worker {
    handled: u32,
}

pub enum Work {
    Do,
    Fail,
    Handled(Reply<u32>),
    Incarnation(Reply<u32>),
}

#[derive(Debug)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken")
    }
}

impl core::error::Error for Broken {}

impl Actor for Worker {
    type Msg = Work;
    type Error = Broken;

    async fn handle(&mut self, work: Work, cx: &mut Context<Self>) -> Result<(), Broken> {
        match work {
            Work::Do => self.handled += 1,
            Work::Fail => return Err(Broken),
            Work::Handled(reply) => reply.send(self.handled),
            Work::Incarnation(reply) => reply.send(cx.incarnation()),
        }
        Ok(())
    }
}

/// Notes how late each message of its timer is.
pub struct Clockwork {
    pub period: Duration,
    pub next: Option<Instant>,
    pub count: u32,
    pub latest: u64,
}

pub enum Beat {
    Due,
    /// Asks for the number of beats and the greatest delay in ticks.
    Report(Reply<(u32, u64)>),
}

impl Actor for Clockwork {
    type Msg = Beat;
    type Error = Infallible;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
        self.next = Some(Instant::now() + embassy(self.period));
        cx.send_every(self.period, || Beat::Due);
        Ok(())
    }

    async fn handle(&mut self, beat: Beat, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match (beat, &mut self.next) {
            (Beat::Due, Some(next)) => {
                let late = Instant::now().checked_duration_since(*next).expect("a timer is never early");
                self.latest = self.latest.max(late.as_ticks());
                self.count += 1;
                *next += embassy(self.period);
            }
            (Beat::Due, None) => {}
            (Beat::Report(reply), _) => reply.send((self.count, self.latest)),
        }
        Ok(())
    }
}

fn embassy(time: Duration) -> embassy_time::Duration {
    embassy_time::Duration::from_millis(time.as_millis() as u64)
}

/// Returns a ball to its peer until no hits are left.
#[derive(Default)]
pub struct Player {
    pub peer: Option<ActorRef<Ball>>,
    pub hits: u32,
}

pub enum Ball {
    Peer(ActorRef<Ball>),
    Hit(u32),
    Hits(Reply<u32>),
}

impl Actor for Player {
    type Msg = Ball;
    type Error = Infallible;

    async fn handle(&mut self, ball: Ball, _cx: &mut Context<Self>) -> Result<(), Infallible> {
        match (ball, &self.peer) {
            (Ball::Peer(peer), _) => self.peer = Some(peer),
            (Ball::Hits(reply), _) => reply.send(self.hits),
            (Ball::Hit(left), Some(peer)) => {
                self.hits += 1;
                if let Some(left) = left.checked_sub(1) {
                    peer.tell(Ball::Hit(left)).expect("the peer lives");
                }
            }
            (Ball::Hit(_), None) => {}
        }
        Ok(())
    }
}
