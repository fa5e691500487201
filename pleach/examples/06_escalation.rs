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

/// Knows what went wrong below it, and tells whoever asks; what the tree says overtakes messages, so either may come first.
#[derive(Default)]
struct Depot(Option<FailureInfo>, Option<Reply<FailureInfo>>);

enum Msg {
    Hire(Reply<ActorRef<u32>>),
    TellMe(Reply<FailureInfo>),
    Trouble(FailureInfo), // from the tree: a crew has failed
}

impl Actor for Depot {
    type Msg = Msg;
    type Error = pleach::BoxError;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), Self::Error> {
        match msg {
            Msg::Hire(reply) => reply.send(cx.spawn("crew", Props::new(Crew::default))?),
            Msg::TellMe(reply) => self.1 = Some(reply),
            Msg::Trouble(failure) => self.0 = Some(failure),
        }
        let asked = self.1.take_if(|_| self.0.is_some());
        asked.zip(self.0.clone()).into_iter().for_each(|(reply, failure)| reply.send(failure));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let system = ActorSystem::new("post")?;
    let props = Props::new(Depot::default).map_system(|signal| match signal {
        Signal::Failure(failure) | Signal::Escalate(failure) => Some(Msg::Trouble(failure.clone())),
        _ => None,
    });
    let depot = system.spawn("depot", props)?;
    let crew = depot.ask(Msg::Hire).await?;
    let parcels = async { [7, 0, 0, 0, 0].into_iter().try_for_each(|parcel| crew.tell(parcel)) };
    let (failure, told) = tokio::join!(depot.ask(Msg::TellMe), parcels);
    let failure = told.map(|()| failure)??;
    println!("the depot heard: {failure}");
    assert!(failure.path() == &crew.path() && system.failures() == 4);
    system.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
