//! The inspection socket obeys only what the process allows, and only below `/user`.

use crate::common::{Log, TestActor};
use crate::socket_folder::{Folder, path};
use pleach::inspect::{Activity, Client, ClientError, InspectAction, InspectOptions};
use pleach::prelude::*;

const ALL: [InspectAction; 4] = [InspectAction::Stop, InspectAction::Restart, InspectAction::Suspend, InspectAction::Resume];

async fn code(client: &mut Client, action: InspectAction, at: &str, id: Option<u64>) -> String {
    match client.act(action, &path(at), id).await {
        Ok(()) => "done".to_string(),
        Err(ClientError::Refused(failure)) => failure.code,
        other => panic!("{other:?}"),
    }
}

fn with_actions(folder: &Folder) -> ActorSystem {
    let options = InspectOptions::at(folder.socket()).allow(ALL);
    ActorSystem::builder("shop").inspect(options).build().unwrap()
}

#[tokio::test]
async fn o1_socket_refuses_actions_unless_they_are_allowed() {
    let folder = Folder::new();
    let system = folder.system();
    let actor = system.spawn_started("actor", TestActor::props(&Log::new())).await.unwrap();
    let mut client = folder.client().await;
    for action in ALL {
        assert_eq!(code(&mut client, action, "/user/actor", None).await, "not_allowed");
    }
    assert!(matches!(client.set_log_level("debug").await, Err(ClientError::Refused(failure)) if failure.code == "not_allowed"));
    assert_eq!((actor.exit(), actor.any().activity()), (None, Activity::Idle));
}

#[tokio::test]
async fn o1_socket_performs_allowed_actions() {
    let folder = Folder::new();
    let system = with_actions(&folder);
    let actor = system.spawn_started("actor", TestActor::props(&Log::new())).await.unwrap();
    let mut client = folder.client().await;
    assert_eq!(client.hello().actions, ALL);
    let id = Some(actor.id().get());
    let until = |activity: Activity| {
        let any = actor.any();
        async move {
            while any.activity() != activity {
                tokio::task::yield_now().await;
            }
        }
    };
    assert_eq!(code(&mut client, InspectAction::Suspend, "/user/actor", id).await, "done");
    until(Activity::Suspended).await;
    assert_eq!(code(&mut client, InspectAction::Resume, "/user/actor", id).await, "done");
    until(Activity::Idle).await;
    assert_eq!(code(&mut client, InspectAction::Restart, "/user/actor", id).await, "done");
    while actor.any().info().actor.unwrap().incarnation == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(code(&mut client, InspectAction::Stop, "/user/actor", Some(0)).await, "changed");
    assert_eq!(code(&mut client, InspectAction::Stop, "/user/actor", id).await, "done");
    assert_eq!(actor.exited().await, Exit::Stopped);
    assert_eq!(code(&mut client, InspectAction::Stop, "/user/actor", id).await, "not_found");
}

#[tokio::test]
async fn o1_socket_protects_the_system_itself() {
    let folder = Folder::new();
    let system = with_actions(&folder);
    let mut client = folder.client().await;
    for at in ["/", "/user", "/system", "/system/inspect", "/system/inspect/c1"] {
        assert_eq!(code(&mut client, InspectAction::Stop, at, None).await, "protected", "{at}");
    }
    let _scope = system.scope("scope").unwrap();
    assert_eq!(code(&mut client, InspectAction::Suspend, "/user/scope", None).await, "not_possible");
}

#[tokio::test]
async fn o1_socket_sets_the_log_level_through_the_program() {
    let folder = Folder::new();
    let (levels, seen) = (Log::new(), Log::new());
    let levels_set = levels.clone();
    let options = InspectOptions::at(folder.socket()).on_log_level(move |level| {
        if level == "loud" {
            return Err("unknown level".to_string());
        }
        levels_set.note(level);
        Ok(())
    });
    let _system = ActorSystem::builder("shop").inspect(options).build().unwrap();
    let mut client = folder.client().await;
    client.set_log_level("debug").await.unwrap();
    match client.set_log_level("loud").await {
        Err(ClientError::Refused(failure)) => seen.note(format!("{} {}", failure.code, failure.text)),
        other => panic!("{other:?}"),
    }
    assert_eq!((levels.take(), seen.take()), (vec!["debug".to_string()], vec!["not_possible unknown level".to_string()]));
}
