//! [`SignalStream`]: the values of a signal of `embassy-sync`, as a stream for an actor.

use core::fmt;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use embassy_sync::blocking_mutex::raw::RawMutex;
use embassy_sync::signal::Signal;
use futures_core::Stream;

/// The values of a [`Signal`], as a stream for
/// [`Props::with_stream`](pleach_core::Props::with_stream). It never ends.
///
/// A signal keeps only its latest value: an actor that is slower than the signal misses the values
/// in between. For a queue use a `Channel` of `embassy-sync`, whose `Receiver` is a stream already.
/// Use a signal with one stream only, because each value wakes one waiter.
///
/// # Examples
///
/// ```
/// use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
/// use embassy_sync::signal::Signal;
/// use pleach_core::Props;
/// use pleach_embassy::SignalStream;
///
/// static TEMPERATURE: Signal<CriticalSectionRawMutex, i16> = Signal::new();
///
/// let props = Props::from_fn(|| (), |(), _celsius: i16| Ok::<(), core::fmt::Error>(()));
/// let props = props.with_stream(SignalStream::of(&TEMPERATURE));
/// TEMPERATURE.signal(21);
/// # drop(props);
/// ```
pub struct SignalStream<M: RawMutex + 'static, T: Send + 'static> {
    signal: &'static Signal<M, T>,
}

impl<M: RawMutex, T: Send> SignalStream<M, T> {
    /// Creates a stream of the values of `signal`.
    pub fn of(signal: &'static Signal<M, T>) -> Self {
        Self { signal }
    }
}

impl<M: RawMutex, T: Send> Stream for SignalStream<M, T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // The signal keeps the waker, so the future of this poll may be dropped.
        pin!(self.signal.wait()).poll(cx).map(Some)
    }
}

impl<M: RawMutex, T: Send> fmt::Debug for SignalStream<M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalStream").field("is_signaled", &self.signal.signaled()).finish()
    }
}
