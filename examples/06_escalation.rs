//! A failure that comes up the tree reaches the program's own enum: `map_system` makes messages of what happens below an actor.
//!
//! Run it with `cargo run --package pleach --example 06_escalation`.

use pleach::prelude::*;

/// Carries parcels, and cannot bear an empty one.
struct Driver;

impl Actor for Driver {
    type Msg = u32;
    type Error = String;

    async fn handle(&mut self, parcel: u32, _cx: &mut Context<Self>) -> Result<(), String> {
        if parcel > 0 { Ok(()) } else { Err("an empty parcel".into()) }
    }
}

/// Has one driver. When that one has failed more often than three times in five seconds, it is the crew that has failed.
#[derive(Default)]
struct Crew(Option<ActorRef<u32>>);

impl Actor for Crew {
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

/// Wants to know what goes wrong below it.
#[derive(Default)]
struct Depot(Option<Reply<FailureInfo>>);

enum Msg {
    Hire(Reply<ActorRef<u32>>),
    TellMe(Reply<FailureInfo>),
    /// From the tree: a crew has failed.
    Trouble(FailureInfo),
}

impl Actor for Depot {
    type Msg = Msg;
    type Error = pleach::BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), Self::Error> {
        match msg {
            Msg::Hire(reply) => reply.send(cx.spawn("crew", Props::new(Crew::default))?),
            Msg::TellMe(reply) => self.0 = Some(reply),
            Msg::Trouble(failure) => self.0.take().into_iter().for_each(|reply| reply.send(failure.clone())),
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let system = ActorSystem::new("post")?;
    let props = Props::new(Depot::default).map_system(|signal| match signal {
        Signal::Failure(failure) | Signal::Escalate(failure) => Some(Msg::Trouble(failure.clone())),
        _ => None, // that children end stays a signal, which the depot ignores
    });
    let depot = system.spawn("depot", props)?;
    let crew = depot.ask(Msg::Hire).await?;
    let parcels = async { [7, 0, 0, 0, 0].into_iter().try_for_each(|parcel| crew.tell(parcel)) };
    let (failure, told) = tokio::join!(depot.ask(Msg::TellMe), parcels);
    let failure = told.map(|()| failure)??;
    println!("the depot heard: {failure}");
    assert_eq!((failure.path(), failure.origin().parent()), (&crew.path(), Some(crew.path())));
    system.shutdown(Duration::from_secs(5)).await?;
    assert!(system.counts().is_settled() && system.failures() == 4);
    Ok(())
}
