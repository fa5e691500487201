//! [`ActionLog`]: the record of actions: who, when, why, and what really happened.
//!
//! The newest entries are kept in memory. All are written through `tracing` with the target
//! `pleach::console`, and to a file if the console has one. Texts are redacted before that.

use super::file::RecordFile;
use crate::clock;
use crate::redact::{MARK, Redaction};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many entries are kept.
const ENTRIES_MAX: usize = 10_000;

/// The most characters of each text of an entry, so that a page of entries fits in an answer.
const TEXT_MAX: usize = 1_000;

/// The longest text in characters that is redacted, much longer than [`TEXT_MAX`].
const REDACTED_MAX: usize = 64 * TEXT_MAX;

/// How many entries a page has by default.
const PAGE_DEFAULT: u64 = 50;

/// Which process or store it was, redacted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    #[serde(default)]
    pub(super) source_name: Option<String>,
    /// The socket or the address; `None` inside the program.
    #[serde(default)]
    pub(super) source_target: Option<String>,
}

impl Place {
    /// Returns whether an entry is about this process or store, which has this key now.
    pub(crate) fn has(&self, key: &str, entry: &Value) -> bool {
        let is = |field: &str, text: &Option<String>| entry[field].as_str() == text.as_deref();
        if !is("source_target", &self.source_target) {
            return false;
        }
        self.source_target.is_some() || (is("source_name", &self.source_name) && entry["source"] == *key)
    }
}

/// An order and what it did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Counts all entries of this console.
    pub(super) seq: u64,
    pub(super) at: String,
    pub(super) who: String,
    pub(super) reason: String,
    pub(super) kind: String,
    /// The path of the member, or the id of the run.
    pub(super) subject: Option<String>,
    /// The key of the process or store.
    pub(super) source: String,
    /// What the key stands for: a later console gives its keys anew.
    #[serde(flatten)]
    pub(super) place: Place,
    pub(super) title: String,
    /// `done`, `stored`, `taken`, `refused` or `failed`.
    pub(super) outcome: String,
    pub(super) text: String,
}

/// The newest entries.
pub(crate) struct ActionLog {
    redaction: Arc<Redaction>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    last: u64,
    file: Option<RecordFile>,
}

impl Kept {
    fn push(&mut self, entry: Entry) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

impl ActionLog {
    pub(crate) fn new(redaction: Arc<Redaction>) -> Self {
        Self { redaction, kept: Mutex::default() }
    }

    /// Returns the place of what a source says about itself.
    pub(crate) fn place(&self, described: &Value) -> Place {
        let text = |field: &str| {
            let mut text = described[field].as_str()?.to_string();
            self.shorten(&mut text);
            Some(text)
        };
        Place { source_name: text("name"), source_target: text("target") }
    }

    /// Redacts a text and cuts it.
    fn shorten(&self, text: &mut String) {
        // What is cut here is cut again below, so no secret is cut in two.
        if let Some((end, _)) = text.char_indices().nth(REDACTED_MAX) {
            text.truncate(end);
        }
        // A text that cannot be redacted is not kept.
        *text = self.redaction.guarded(|rules| Ok(rules.string(text))).unwrap_or_else(|_| MARK.to_string());
        if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
            text.truncate(end);
            text.push('…');
        }
    }

    /// Adds an entry; its number and time are set here.
    pub(super) fn add(&self, mut entry: Entry) {
        let texts = [&mut entry.reason, &mut entry.title, &mut entry.text].into_iter();
        texts.chain(&mut entry.subject).for_each(|text| self.shorten(text));
        entry.at = clock::now();
        let Entry { who, kind, subject, source, outcome, reason, text, .. } = &entry;
        let subject = subject.as_deref().unwrap_or_default();
        tracing::info!(target: "pleach::console", ?who, ?kind, ?subject, ?source, ?outcome, ?reason, ?text, "action");
        let mut kept = self.kept();
        kept.last += 1;
        entry.seq = kept.last;
        if let Some(error) = kept.file.as_mut().and_then(|file| file.append(&entry).err()) {
            tracing::error!(target: "pleach::console", %error, seq = entry.seq, "an action was not written to its file");
        }
        kept.push(entry);
    }

    /// Continues the record of a file, of which these are the newest entries.
    pub(crate) fn keep_in(&self, file: RecordFile, entries: Vec<Entry>) {
        let mut kept = self.kept();
        kept.last = entries.iter().map(|entry| entry.seq).max().unwrap_or_default();
        entries.into_iter().for_each(|entry| kept.push(entry));
        kept.file = Some(file);
    }

    /// Returns the entries before a number, the newest first.
    pub(crate) fn page(&self, before: Option<u64>, limit: Option<u64>) -> Vec<Entry> {
        let limit = usize::try_from(limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
        let is_asked = |entry: &&Entry| before.is_none_or(|before| entry.seq < before);
        self.kept().entries.iter().rev().filter(is_asked).take(limit).cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
