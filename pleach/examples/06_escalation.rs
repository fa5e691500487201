//! A failure travels up the tree. `map_signals` turns it into a message of the actor's own type.
//!
//! Run it with `cargo run --package pleach --example 06_escalation`.

use pleach::prelude::*;

/// Delivers parcels. Fails on an empty one.
struct Driver;

impl Actor for Driver {
    type Msg = u32;
    type Error = String;

    async fn handle(&mut self, parcel: u32, _cx: &mut Context<Self>) -> Result<(), String> {
        if parcel > 0 { Ok(()) } else { Err("an empty parcel".into()) }
    }
}

/// Has one driver. If the driver fails more than three times in five seconds, the team fails.
#[derive(Default)]
struct Team(Option<ActorRef<u32>>);

impl Actor for Team {
    type Msg = u32;
    type Error = pleach::BoxError;

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Self::Error> {
        self.0 = Some(cx.spawn("driver", Props::new(|| Driver))?);
        Ok(())
    }

    async fn handle(&mut self, parcel: u32, _cx: &mut Context<Self>) -> Result<(), Self::Error> {
        Ok(self.0.as_ref().ok_or("no driver")?.send(parcel).await?)
    }
}

/// Answers which failure happened below it. Signals overtake messages, so either can come first.
#[derive(Default)]
struct Depot(Option<FailureInfo>, Option<Reply<FailureInfo>>);

enum Msg {
    Start(Reply<ActorRef<u32>>),
    LastFailure(Reply<FailureInfo>),
    Failed(FailureInfo), // from the tree: a team has failed
}

impl Actor for Depot {
    type Msg = Msg;
    type Error = pleach::BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), Self::Error> {
        match msg {
            Msg::Start(reply) => reply.send(cx.spawn("team", Props::new(Team::default))?),
            Msg::LastFailure(reply) => self.1 = Some(reply),
            Msg::Failed(failure) => self.0 = Some(failure),
        }
        let asked = self.1.take_if(|_| self.0.is_some());
        asked.zip(self.0.clone()).into_iter().for_each(|(reply, failure)| reply.send(failure));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let system = ActorSystem::new("post")?;
    let props = Props::new(Depot::default).map_signals(|signal| match signal {
        Signal::Failure(failure) | Signal::Escalate(failure) => Some(Msg::Failed(failure.clone())),
        _ => None,
    });
    let depot = system.spawn("depot", props)?;
    let team = depot.ask(Msg::Start).await?;
    let parcels = async { [7, 0, 0, 0, 0].into_iter().try_for_each(|parcel| team.tell(parcel)) };
    let (failure, sent) = tokio::join!(depot.ask(Msg::LastFailure), parcels);
    let failure = sent.map(|()| failure)??;
    println!("the depot received: {failure}");
    assert!(failure.path() == &team.path() && system.failures() == 4);
    system.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
