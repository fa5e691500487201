//! The programs that are built and measured.

use std::fmt::Write as _;

const PROFILES: &str = r#"
[profile.small]
inherits = "release"
opt-level = "s"
lto = true
codegen-units = 1
"#;

const TOKIO: &str = r#"tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }"#;

pub(crate) fn pleach_manifest() -> String {
    let pleach = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pleach");
    manifest(&format!("pleach = {{ path = {pleach:?} }}"))
}

pub(crate) fn kameo_manifest() -> String {
    manifest(r#"kameo = "0.22.2""#)
}

fn manifest(dependency: &str) -> String {
    format!(
        "[package]\nname = \"hello\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{dependency}\n{TOKIO}\n{PROFILES}"
    )
}

pub(crate) fn pleach_hello() -> String {
    pleach_types(1)
}

/// A program with this many actor types. Each has its own state and message type, is spawned, and
/// gets one `tell` and one `ask`.
pub(crate) fn pleach_types(types: usize) -> String {
    let mut program = String::from("use pleach::prelude::*;\n");
    let mut uses = String::new();
    for n in 0..types {
        // Writing to a string cannot fail.
        let _ = write!(
            program,
            r#"
struct Counter{n}([u64; {size}]);

enum Message{n} {{
    Add(u64, [u8; {size}]),
    Sum(Reply<u64>),
}}

impl Actor for Counter{n} {{
    type Msg = Message{n};
    type Error = std::num::TryFromIntError;

    async fn handle(&mut self, message: Message{n}, _cx: &mut Context<Self>) -> Result<(), Self::Error> {{
        match message {{
            Message{n}::Add(n, bytes) => self.0[0] += u64::from(u32::try_from(n)?) + u64::from(bytes[0]),
            Message{n}::Sum(reply) => reply.send(self.0.iter().sum()),
        }}
        Ok(())
    }}
}}
"#,
            size = n + 1
        );
        let _ = write!(
            uses,
            r#"
    let counter = system.spawn("counter{n}", Props::new(|| Counter{n}([0; {size}])))?;
    counter.tell(Message{n}::Add({n}, [1; {size}]))?;
    println!("{{}}", counter.ask(Message{n}::Sum).await?);
"#,
            size = n + 1
        );
    }
    let _ = write!(
        program,
        r#"
#[tokio::main]
async fn main() -> Result<(), pleach::Error> {{
    let system = ActorSystem::new("hello")?;
{uses}
    system.shutdown(Duration::from_secs(1)).await?;
    Ok(())
}}
"#
    );
    program
}

pub(crate) fn kameo_hello() -> String {
    r#"use kameo::prelude::*;

#[derive(Actor)]
struct Counter(u64);

struct Add(u64);

struct Sum;

impl Message<Add> for Counter {
    type Reply = ();

    async fn handle(&mut self, Add(n): Add, _ctx: &mut Context<Self, Self::Reply>) {
        self.0 += n;
    }
}

impl Message<Sum> for Counter {
    type Reply = u64;

    async fn handle(&mut self, Sum: Sum, _ctx: &mut Context<Self, Self::Reply>) -> u64 {
        self.0
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let counter = Counter::spawn(Counter(0));
    counter.tell(Add(1)).await?;
    println!("{}", counter.ask(Sum).await?);
    counter.stop_gracefully().await?;
    counter.wait_for_shutdown().await;
    Ok(())
}
"#
    .to_string()
}
