//! How many runtimes a program can start, and where.

use crate::common::on_embassy;
use core::convert::Infallible;
use pleach_core::{Props, Reply, System};
use pleach_embassy::{RUNTIMES_MAX, start, start_send};

#[test]
fn d3_runtimes_start_until_none_is_free() {
    on_embassy(|spawner| async move {
        let mut runtimes = vec![start_send(spawner.make_send()).unwrap()];
        runtimes.extend((1..RUNTIMES_MAX).map(|_| start(spawner).unwrap()));
        assert!(start(spawner).is_err() && start_send(spawner.make_send()).is_err());
        for (number, runtime) in runtimes.into_iter().enumerate() {
            let system = System::builder("board", runtime).build().unwrap();
            let echo = |(): &mut (), reply: Reply<usize>| {
                reply.send(7);
                Ok::<(), Infallible>(())
            };
            let actor = system.spawn("echo", Props::from_fn(|| (), echo)).unwrap();
            assert_eq!(actor.ask(|reply| reply).await.unwrap(), 7, "runtime {number}");
        }
    });
}
