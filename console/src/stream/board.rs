//! [`Board`]: which stream watches what, and the newest reading of each view.
//!
//! Pure: no time, no I/O, no tasks. The hub holds it under its lock and acts on what the methods
//! return.

use crate::view::View;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

/// The most streams that are open at once.
pub(super) const STREAMS_MAX: usize = 32;

/// The most views that one stream watches.
pub(super) const WATCHES_MAX: usize = 32;

/// The most bytes of one frame.
pub(super) const FRAME_MAX: usize = 64 * 1024;

/// The most bytes of a value, so that its line fits in a frame. A longer one is not sent.
pub(super) const VALUE_MAX: usize = FRAME_MAX - 512;

/// The longest key of a watch, in bytes.
pub(super) const KEY_MAX: usize = 64;

/// What a view showed at some time.
#[derive(Debug)]
pub(super) struct Reading {
    /// When, as RFC 3339.
    pub(super) at: String,
    /// `"value":…`, `"error":…` or `"too_large":…`: a member of a JSON object.
    pub(super) content: String,
}

#[derive(Default)]
pub(super) struct Board {
    streams: BTreeMap<u64, Stream>,
    views: HashMap<View, Watched>,
    /// The number of the last stream.
    last: u64,
}

/// A view that at least one stream watches.
struct Watched {
    /// Tells its task from an earlier task for the same view.
    task: u64,
    watchers: usize,
    newest: Option<Arc<Reading>>,
    /// Counts the readings that differ from the one before.
    version: u64,
}

struct Stream {
    id: String,
    watches: BTreeMap<String, Watch>,
    /// The number of its last line.
    seq: u64,
    /// The key of the last line: the next frame begins behind it, so that every key gets its turn.
    last_key: Option<String>,
}

struct Watch {
    view: View,
    /// The version that was sent. 0: none.
    sent: u64,
}

/// A frame: some lines, at most one for each key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) text: String,
    /// Whether a further frame could be sent now.
    pub(super) has_more: bool,
}

/// What changed with the watches of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Views that nobody watched before, each with the number for its task.
    pub(super) begun: Vec<(View, u64)>,
    /// The tasks of views that nobody watches any more.
    pub(super) ended: Vec<u64>,
}

impl Board {
    /// Adds a stream. Returns its number, or `None` if too many are open.
    pub(super) fn open(&mut self, id: String) -> Option<u64> {
        if self.streams.len() >= STREAMS_MAX {
            return None;
        }
        self.last += 1;
        self.streams.insert(self.last, Stream { id, watches: BTreeMap::new(), seq: 0, last_key: None });
        Some(self.last)
    }

    /// Returns the number of the stream with this id.
    pub(super) fn find(&self, id: &str) -> Option<u64> {
        self.streams.iter().find(|(_, stream)| stream.id == id).map(|(number, _)| *number)
    }

    /// Removes a stream.
    pub(super) fn close(&mut self, stream: u64) -> Change {
        let change = self.replace(stream, BTreeMap::new());
        self.streams.remove(&stream);
        change
    }

    /// Replaces what a stream watches. A key whose view stays the same is not sent again.
    pub(super) fn replace(&mut self, stream: u64, watches: BTreeMap<String, View>) -> Change {
        let mut change = Change::default();
        let Some(stream) = self.streams.get_mut(&stream) else { return change };
        let mut old = std::mem::take(&mut stream.watches);
        for (key, view) in watches {
            let watched = self.views.entry(view.clone()).or_insert_with(|| {
                self.last += 1;
                change.begun.push((view.clone(), self.last));
                Watched { task: self.last, watchers: 0, newest: None, version: 0 }
            });
            watched.watchers += 1;
            let sent = old.get(&key).filter(|watch| watch.view == view).map_or(0, |watch| watch.sent);
            stream.watches.insert(key, Watch { view, sent });
        }
        while let Some((_, watch)) = old.pop_first() {
            let Some(watched) = self.views.get_mut(&watch.view) else { continue };
            watched.watchers -= 1;
            if watched.watchers == 0 {
                change.ended.push(watched.task);
                self.views.remove(&watch.view);
            }
        }
        change
    }

    /// Notes what a view shows now. Returns the streams that have something to send.
    pub(super) fn publish(&mut self, view: &View, task: u64, reading: Reading) -> Vec<u64> {
        let Some(watched) = self.views.get_mut(view).filter(|watched| watched.task == task) else { return Vec::new() };
        if watched.newest.as_ref().is_some_and(|newest| newest.content == reading.content) {
            return Vec::new();
        }
        watched.newest = Some(Arc::new(reading));
        watched.version += 1;
        let watches = |stream: &Stream| stream.watches.values().any(|watch| watch.view == *view);
        self.streams.iter().filter(|(_, stream)| watches(stream)).map(|(number, _)| *number).collect()
    }

    /// Returns whether a stream has something to send, and whether that answers a new watch.
    pub(super) fn pending(&self, stream: u64) -> Option<Urgency> {
        let stream = self.streams.get(&stream)?;
        let mut pending = None;
        for watch in stream.watches.values() {
            if self.version(watch) > watch.sent {
                let urgency = if watch.sent == 0 { Urgency::NewWatch } else { Urgency::Regular };
                pending = pending.max(Some(urgency));
            }
        }
        pending
    }

    /// Makes the next frame of a stream from the newest readings.
    pub(super) fn frame(&mut self, stream: u64) -> Frame {
        let mut frame = Frame::default();
        let Some(mut stream) = self.streams.remove(&stream).map(|taken| (stream, taken)) else { return frame };
        for key in turn(&stream.1) {
            let Some(watch) = stream.1.watches.get(&key) else { continue };
            let Some(watched) = self.views.get(&watch.view).filter(|watched| watched.version > watch.sent) else { continue };
            let Some(reading) = &watched.newest else { continue };
            let line = line(stream.1.seq + 1, &key, reading);
            if !frame.text.is_empty() && frame.text.len() + line.len() > FRAME_MAX {
                frame.has_more = true;
                break;
            }
            frame.text.push_str(&line);
            stream.1.seq += 1;
            let version = watched.version;
            if let Some(watch) = stream.1.watches.get_mut(&key) {
                watch.sent = version;
            }
            stream.1.last_key = Some(key);
        }
        self.streams.insert(stream.0, stream.1);
        frame
    }

    /// Returns the line that shows that a stream is alive.
    pub(super) fn alive(&mut self, stream: u64, at: &str) -> String {
        let Some(stream) = self.streams.get_mut(&stream) else { return String::new() };
        stream.seq += 1;
        format!("{{\"seq\":{},\"at\":\"{at}\",\"alive\":true}}\n", stream.seq)
    }

    fn version(&self, watch: &Watch) -> u64 {
        self.views.get(&watch.view).map_or(0, |watched| watched.version)
    }
}

/// How soon a stream should send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    Regular,
    /// A person has just begun to look at it.
    NewWatch,
}

/// The keys of a stream: new watches first, then those behind the key of the last line.
fn turn(stream: &Stream) -> Vec<String> {
    let is_behind = |key: &String| stream.last_key.as_ref().is_none_or(|last| key > last);
    let mut keys: Vec<(bool, bool, &String)> =
        stream.watches.iter().map(|(key, watch)| (watch.sent > 0, !is_behind(key), key)).collect();
    keys.sort();
    keys.into_iter().map(|(_, _, key)| key.clone()).collect()
}

fn line(seq: u64, key: &str, reading: &Reading) -> String {
    let mut line = String::with_capacity(reading.content.len() + key.len() + 80);
    let key = serde_json::Value::from(key);
    // Writing to a string does not fail.
    let _ = write!(line, "{{\"seq\":{seq},\"at\":\"{}\",\"key\":{key},", reading.at);
    line.push_str(&reading.content);
    line.push_str("}\n");
    line
}
