//! `Row`: a record as bytes, and the checksums that find every damage to them. Messages of the inbox are sealed alike.
//!
//! The row's checksum covers the run's id, the sequence and the header; the header has that of the body, as it is stored. So the whole row is
//! covered, and a header can be trusted without its body. CRC-32 finds every single flipped bit and every damage of up to 32 bits in a row,
//! for certain, and other damage in all but one of 4 billion cases.

use super::limits::{BODY, check_size, check_text};
use super::{FORMAT, Header, Record, StoreError, Timestamp};
use serde::{Deserialize, Serialize};

/// What is wrong with a log that has a row above its head.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const STRAY_ROW: &str = "its log has a row that was never written to it";

/// A record as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The sequence in the run's log.
    pub sequence: u64,
    /// What it is about, as JSON.
    pub header: Vec<u8>,
    /// The payload, compressed or not.
    pub body: Vec<u8>,
    /// The checksum of run, sequence and header.
    pub sum: u32,
}

/// The header as it is stored: the record's, and what is needed to read the rest.
#[derive(Serialize, Deserialize)]
struct Stored<H> {
    format: u32,
    #[serde(flatten)]
    header: H,
    body: StoredBody,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct StoredBody {
    sum: u32,
    /// The size before it was compressed, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zstd: Option<usize>,
}

/// The body of a record, compressed and with its checksum. Packing needs neither a sequence nor a header, so it is done before any lock is taken.
pub(crate) struct PackedBody {
    bytes: Vec<u8>,
    about: StoredBody,
}

impl PackedBody {
    /// Packs a body. One above the limit is [`TooLarge`](StoreError::TooLarge).
    pub(crate) fn pack(body: Vec<u8>, body_bytes_max: usize) -> Result<Self, StoreError> {
        check_size(BODY, body.len(), body_bytes_max)?;
        let (bytes, zstd) = compression::pack(body)?;
        let sum = crc32fast::hash(&bytes);
        Ok(Self { bytes, about: StoredBody { sum, zstd } })
    }
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

impl Row {
    /// A record as bytes. A body above the limit is [`TooLarge`](StoreError::TooLarge).
    pub fn seal(run: &str, sequence: u64, header: &Header, body: Vec<u8>, body_bytes_max: usize) -> Result<Self, StoreError> {
        Self::seal_packed(run, sequence, header, PackedBody::pack(body, body_bytes_max)?)
    }

    /// A record as bytes, with a body that was packed before.
    pub(crate) fn seal_packed(run: &str, sequence: u64, header: &Header, body: PackedBody) -> Result<Self, StoreError> {
        check_text("run id", run)?;
        let PackedBody { bytes: body, about } = body;
        let stored = Stored { format: FORMAT, header, body: about };
        let header = serde_json::to_vec(&stored).map_err(StoreError::unavailable)?;
        let sum = sum_of_row(run, sequence, &header);
        Ok(Self { sequence, header, body, sum })
    }

    /// The record, after all of it was checked. Damage is [`Damaged`](StoreError::Damaged), and names the row.
    pub fn open(self, run: &str) -> Result<Record, StoreError> {
        let (header, stored) = self.checked_header(run)?;
        if crc32fast::hash(&self.body) != stored.sum {
            return Err(self.damaged(run, "the checksum of its body differs"));
        }
        let sequence = self.sequence;
        let body = match stored.zstd {
            Some(size) => compression::unpack(&self.body, size, run, sequence)?,
            None => self.body,
        };
        Ok(Record { run: run.to_string(), sequence, header, body })
    }

    /// The header, after it was checked; nothing is said about the body.
    pub fn open_header(&self, run: &str) -> Result<Header, StoreError> {
        self.checked_header(run).map(|(header, _)| header)
    }

    /// Its bytes, header and body.
    pub fn size(&self) -> usize {
        self.header.len() + self.body.len()
    }

    fn checked_header(&self, run: &str) -> Result<(Header, StoredBody), StoreError> {
        if sum_of_row(run, self.sequence, &self.header) != self.sum {
            return Err(self.damaged(run, "the checksum of its header differs"));
        }
        let unreadable = |_| self.damaged(run, "its header is not what this version writes");
        let FormatOnly { format } = serde_json::from_slice(&self.header).map_err(unreadable)?;
        if format > FORMAT {
            let what = format!("row {} of run {run:?}", self.sequence);
            return Err(StoreError::Future { what, format, known: FORMAT });
        }
        let Stored { header, body, .. } = serde_json::from_slice(&self.header).map_err(unreadable)?;
        Ok((header, body))
    }

    fn damaged(&self, run: &str, why: &'static str) -> StoreError {
        StoreError::Damaged { run: run.to_string(), sequence: self.sequence, why }
    }
}

/// A message for an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// What it is: the key that it answers, or the name of a signal.
    pub name: String,
    /// Posts of one run with the same text are one message.
    pub dedup: Option<String>,
    /// What it says.
    pub payload: Vec<u8>,
    /// The checksum of run, name, dedup text and payload.
    pub sum: u32,
}

/// A message in an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxMessage {
    /// Its number in the inbox, from 1.
    pub number: u64,
    /// When it was posted, by the store's clock.
    pub at: Timestamp,
    /// What was posted.
    pub post: NewMessage,
}

impl NewMessage {
    /// A message with its checksum.
    pub fn seal(run: &str, name: impl Into<String>, dedup: Option<String>, payload: Vec<u8>) -> Self {
        let name = name.into();
        let sum = sum_of_post(run, &name, dedup.as_deref(), &payload);
        Self { name, dedup, payload, sum }
    }

    /// The payload, after the message was checked.
    pub fn open(self, run: &str) -> Result<Vec<u8>, StoreError> {
        if sum_of_post(run, &self.name, self.dedup.as_deref(), &self.payload) == self.sum {
            return Ok(self.payload);
        }
        Err(StoreError::Damaged { run: run.to_string(), sequence: 0, why: "the checksum of a message in its inbox differs" })
    }
}

/// The checksum of a row of a log.
pub(super) fn sum_of_row(run: &str, sequence: u64, header: &[u8]) -> u32 {
    sum_of(&[run.as_bytes(), &sequence.to_le_bytes(), header])
}

fn sum_of_post(run: &str, name: &str, dedup: Option<&str>, payload: &[u8]) -> u32 {
    let has_dedup = [u8::from(dedup.is_some())];
    sum_of(&[run.as_bytes(), name.as_bytes(), &has_dedup, dedup.unwrap_or("").as_bytes(), payload])
}

/// A checksum of several parts; each counts with its length, so that nothing can move from one to the next.
pub(super) fn sum_of(parts: &[&[u8]]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    for part in parts {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.finalize()
}

#[cfg(feature = "zstd")]
mod compression {
    use super::StoreError;
    use crate::store::BODY_BYTES_MAX;
    use std::io::Read as _;

    /// Smaller bodies are stored as they are.
    const BYTES_MIN: usize = 4 << 10;

    /// The body to store, and its size before if it was compressed. What does not become smaller stays as it is.
    pub(super) fn pack(body: Vec<u8>) -> Result<(Vec<u8>, Option<usize>), StoreError> {
        if body.len() <= BYTES_MIN {
            return Ok((body, None));
        }
        let packed = zstd::bulk::compress(&body, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(StoreError::unavailable)?;
        Ok(if packed.len() < body.len() { (packed, Some(body.len())) } else { (body, None) })
    }

    /// Returns at most `size` bytes. Memory grows with what is decompressed, since a damaged header can name any size.
    pub(super) fn unpack(body: &[u8], size: usize, run: &str, sequence: u64) -> Result<Vec<u8>, StoreError> {
        let mut unpacked = Vec::with_capacity(size.min(BODY_BYTES_MAX));
        let limit = (size as u64).saturating_add(1);
        let done = zstd::Decoder::with_buffer(body).and_then(|decoder| decoder.take(limit).read_to_end(&mut unpacked));
        if done.is_ok() && unpacked.len() <= size {
            return Ok(unpacked);
        }
        Err(StoreError::Damaged { run: run.to_string(), sequence, why: "it does not decompress" })
    }
}

#[cfg(not(feature = "zstd"))]
mod compression {
    use super::StoreError;

    pub(super) fn pack(body: Vec<u8>) -> Result<(Vec<u8>, Option<usize>), StoreError> {
        Ok((body, None))
    }

    pub(super) fn unpack(_: &[u8], _: usize, run: &str, sequence: u64) -> Result<Vec<u8>, StoreError> {
        Err(StoreError::Compressed { run: run.to_string(), sequence })
    }
}
