//! A planted bug of each class of faults in actors and I/O is found within 1,000 seeds, made small,
//! and replayed. The program without the bug passes with the same faults.

use crate::common::yield_once;
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Exploration, FaultKind, Faults, FoundFailure, Sim};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const SECOND: Duration = Duration::from_secs(1);

/// Checks that the bug is found with these faults, that one fault of this kind is enough, that the
/// failure replays, and that the repaired program passes.
fn is_found(kind: FaultKind, faults: impl Into<Faults>, test: impl Fn(&Sim, bool)) -> FoundFailure {
    let exploration = Exploration::new(0..1_000).faults(faults);
    let found = exploration.clone().first_failure(|sim| test(sim, true));
    let found = found.unwrap_or_else(|| panic!("the bug that {kind} shows is found within 1,000 seeds"));
    let kinds: Vec<FaultKind> = found.needed.iter().map(|fault| fault.kind).collect();
    assert_eq!(kinds, [kind], "{found}");
    assert!(found.replay(|sim| test(sim, true)) && found.replay(|sim| test(sim, true)));
    assert!(!found.replay(|sim| test(sim, false)));
    exploration.run(|sim| test(sim, false));
    found
}

/// A till that books each amount once.
struct Till {
    booked: Arc<Mutex<BTreeSet<u32>>>,
}

enum TillMsg {
    Book(u32, Reply<()>),
}

impl Actor for Till {
    type Msg = TillMsg;
    type Error = BoxError;

    async fn handle(&mut self, TillMsg::Book(id, reply): TillMsg, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        // It may be interrupted in the middle of its work.
        yield_once().await;
        self.booked.lock().unwrap().insert(id);
        reply.send(());
        Ok(())
    }
}

/// Books 5 amounts. A clerk without the bug repeats a booking whose answer is an error.
fn clerk_gives_up(sim: &Sim, has_bug: bool) {
    let system = sim.system("shop");
    let workers = system.supervisor("workers", OneForOne::new().restart_limit(100, SECOND)).unwrap();
    let booked = Arc::new(Mutex::new(BTreeSet::new()));
    let state = Arc::clone(&booked);
    let till = workers.spawn("till", Props::new(move || Till { booked: Arc::clone(&state) })).unwrap();
    sim.run(async {
        for id in 0..5 {
            while till.ask(|reply| TillMsg::Book(id, reply)).await.is_err() && !has_bug {}
        }
    });
    assert_eq!(booked.lock().unwrap().len(), 5);
}

/// An actor that retries failed messages books five amounts. With the bug it does not look whether
/// an amount was booked before.
fn retry_books_twice(sim: &Sim, has_bug: bool) {
    let system = sim.system("shop");
    let booked = Arc::new(Mutex::new(Vec::new()));
    let state = Arc::clone(&booked);
    let book = move |_: &mut (), id: u32| {
        let mut booked = state.lock().unwrap();
        if has_bug || !booked.contains(&id) {
            booked.push(id);
        }
        Ok::<(), BoxError>(())
    };
    let workers = system.supervisor("workers", OneForOne::new().restart_limit(100, SECOND)).unwrap();
    let till = workers.spawn("till", Props::from_fn(|| (), book).retry(100)).unwrap();
    (0..5).for_each(|id| till.tell(id).unwrap());
    sim.settle();
    assert_eq!(*booked.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn d5_planted_bug_shown_by_failing_handlers_is_found() {
    is_found(FaultKind::HandlerFails, FaultKind::HandlerFails.rate(0.05), clerk_gives_up);
}

#[test]
fn d5_planted_bug_shown_by_crashes_before_work_is_found() {
    is_found(FaultKind::CrashBefore, [FaultKind::CrashBefore.rate(0.02), FaultKind::CrashAfter.rate(0.2)], clerk_gives_up);
}

#[test]
fn d5_planted_bug_shown_by_crashes_after_work_is_found() {
    let faults = [FaultKind::CrashAfter.rate(0.05), FaultKind::HandlerFails.rate(0.3)];
    let found = is_found(FaultKind::CrashAfter, faults, retry_books_twice);
    assert_eq!(found.needed[0].site, "/user/workers/till");
}

/// Two members use a lock that expires after 5 s. One that does not check the time again after its
/// I/O writes although the other has the lock.
fn lock_expires(sim: &Sim, has_bug: bool) {
    let runtime = sim.runtime();
    let writes = Arc::new(Mutex::new(Vec::new()));
    let scope = sim.scope();
    for (name, begins) in [("first", Duration::ZERO), ("second", 6 * SECOND)] {
        let (runtime, writes) = (Arc::clone(&runtime), Arc::clone(&writes));
        let expires = begins + 5 * SECOND;
        let io = sim.io("disk", async {});
        let write = async move {
            runtime.sleep_until(runtime.now() + begins).await;
            io.await;
            if has_bug || runtime.now().since_start() < expires {
                writes.lock().unwrap().push(name);
            }
        };
        scope.launch(write).unwrap();
    }
    sim.advance(60 * SECOND);
    let writes = writes.lock().unwrap();
    assert!(!writes.ends_with(&["second", "first"]), "the first one wrote after the second one");
}

#[test]
fn d5_planted_bug_shown_by_late_io_is_found() {
    is_found(FaultKind::IoLate, FaultKind::IoLate.rate(0.2).up_to(20 * SECOND), lock_expires);
}

/// A client of three gateways that waits for each answer. Without the bug it has a time limit.
fn client_waits(sim: &Sim, has_bug: bool) {
    let runtime = sim.runtime();
    let answered = sim.run(async {
        let mut answered = BTreeSet::new();
        for gateway in ["visa", "master", "paypal"] {
            let pause = runtime.sleep_until(runtime.now() + SECOND);
            let io = sim.io(gateway, async move {
                pause.await;
                gateway
            });
            match has_bug {
                true => drop(answered.insert(io.await)),
                false => answered.extend(sim.timeout(10 * SECOND, io).await.ok()),
            }
        }
        answered
    });
    assert!(answered.len() <= 3);
}

#[test]
fn d5_planted_bug_shown_by_silent_io_is_found() {
    let found = is_found(FaultKind::IoSilent, FaultKind::IoSilent.rate(0.05), client_waits);
    assert!(found.reason.contains("simulation stalled"), "{}", found.reason);
    assert!(found.reason.contains("never completes: injected fault io-silent"), "{}", found.reason);
}

#[test]
fn d5_planted_bug_shown_by_lost_wake_ups_is_found() {
    let found = is_found(FaultKind::WakeLost, FaultKind::WakeLost.rate(0.05), client_waits);
    assert!(found.reason.contains("has not completed"), "{}", found.reason);
}

/// A sensor is read once a second, and must be read at least every three seconds. With the bug the
/// pause begins only after the reading.
fn sensor_is_read(sim: &Sim, has_bug: bool) {
    let runtime = sim.runtime();
    sim.run(async {
        let mut last = runtime.now();
        for _ in 0..10 {
            let ready = runtime.sleep_until(runtime.now() + SECOND / 10);
            let reading = sim.io("sensor", ready);
            let limit = if has_bug { 60 * SECOND } else { SECOND };
            let _is_in_time = sim.timeout(limit, reading).await;
            assert!(runtime.now().since(last) < 3 * SECOND, "the watchdog resets the board");
            last = runtime.now();
        }
    });
}

#[test]
fn d5_planted_bug_shown_by_late_wake_ups_is_found() {
    is_found(FaultKind::WakeLate, FaultKind::WakeLate.rate(0.05).up_to(5 * SECOND), sensor_is_read);
}
