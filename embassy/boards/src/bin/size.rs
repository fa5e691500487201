//! The program whose flash `cargo xtask size` reports: one supervised actor with a timer, asked by
//! the main task. Each of the features `second` and `third` adds an actor type.
//!
//! It prints nothing, as firmware does, and a panic stops it. Build it for `thumbv7m`.
#![no_std]
#![no_main]

extern crate alloc;

use core::convert::Infallible;
use core::panic::PanicInfo;
use core::time::Duration;
use cortex_m_rt::entry;
use embassy_executor::{Executor, Spawner};
use embedded_alloc::LlffHeap;
use pleach_core::{Actor, Context, OneForOne, Props, Reply, System};

#[path = "../timer.rs"]
mod timer;

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

const HEAP_SIZE: usize = 16 * 1024;

/// An actor type with a message, an error, a timer and an answer of its own.
macro_rules! sensor {
    ($sensor:ident, $message:ident, $value:ty) => {
        #[derive(Default)]
        struct $sensor {
            value: $value,
        }

        enum $message {
            Sample,
            Read(Reply<$value>),
        }

        impl Actor for $sensor {
            type Msg = $message;
            type Error = Infallible;

            async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), Infallible> {
                cx.send_every(Duration::from_millis(10), || $message::Sample);
                Ok(())
            }

            async fn handle(&mut self, message: $message, _cx: &mut Context<Self>) -> Result<(), Infallible> {
                match message {
                    $message::Sample => self.value = self.value.wrapping_add(1),
                    $message::Read(reply) => reply.send(self.value),
                }
                Ok(())
            }
        }
    };
}

sensor!(First, FirstMsg, u32);
#[cfg(feature = "second")]
sensor!(Second, SecondMsg, u16);
#[cfg(feature = "third")]
sensor!(Third, ThirdMsg, u8);

/// Spawns an actor, and reads it once.
macro_rules! read {
    ($workers:ident, $name:literal, $sensor:ident, $message:ident) => {
        if let Ok(sensor) = $workers.spawn($name, Props::new($sensor::default)) {
            core::hint::black_box(sensor.ask($message::Read).await.ok());
        }
    };
}

#[embassy_executor::task]
async fn run(spawner: Spawner) {
    let Ok(runtime) = pleach_embassy::start(spawner) else { return };
    let Ok(system) = System::builder("board", runtime).build() else { return };
    let Ok(workers) = system.supervisor("workers", OneForOne::new()) else { return };
    read!(workers, "first", First, FirstMsg);
    #[cfg(feature = "second")]
    read!(workers, "second", Second, SecondMsg);
    #[cfg(feature = "third")]
    read!(workers, "third", Third, ThirdMsg);
    drop(system.ended().await);
}

/// Gives the allocator its memory. Call it once, before anything is allocated.
fn init_heap() {
    static mut MEMORY: [u8; HEAP_SIZE] = [0; HEAP_SIZE];
    // SAFETY: it is called once, and nothing else refers to the memory.
    unsafe { HEAP.init(&raw mut MEMORY as usize, HEAP_SIZE) }
}

#[entry]
fn main() -> ! {
    init_heap();
    let executor = alloc::boxed::Box::leak(alloc::boxed::Box::new(Executor::new()));
    executor.run(|spawner| {
        if let Ok(task) = run(spawner) {
            spawner.spawn(task);
        }
    })
}

#[cortex_m_rt::exception]
fn SysTick() {
    timer::tick();
}

#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    loop {}
}
