//! [`Row`]: a record as bytes with checksums. Inbox messages ([`NewMessage`]) are sealed the same
//! way.
//!
//! The checksum of a row covers the run id, the sequence and the header. The header contains the
//! checksum of the stored body. So the whole row is covered, and a header can be checked without
//! its body. CRC-32 detects every burst of damage up to 32 bits, and misses other damage in one of
//! 4 billion cases.

use super::limits::{BODY, check_size, check_text};
use super::{FORMAT, Header, Record, StoreError, Timestamp};
use serde::{Deserialize, Serialize};

/// The damage of a log that has a row above its head.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const STRAY_ROW: &str = "its log has a row that was never written to it";

/// A record as bytes, with a checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The sequence in the run's log, from 1.
    pub sequence: u64,
    /// The header of the record, as JSON.
    pub header: Vec<u8>,
    /// The body, which may be compressed.
    pub body: Vec<u8>,
    /// The checksum of run id, sequence and header.
    pub sum: u32,
}

/// The stored form of the header: the header of the record, plus the format and the data about the
/// body.
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
    /// The size before compression, if the body is compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zstd: Option<usize>,
}

/// The body of a record, compressed and with its checksum.
///
/// Packing needs neither a sequence nor a header, so it runs before any lock is taken.
#[derive(Clone)]
pub(crate) struct PackedBody {
    bytes: Vec<u8>,
    about: StoredBody,
}

impl PackedBody {
    /// Compresses a body. A body above the limit is [`TooLarge`](StoreError::TooLarge).
    pub(crate) fn pack(body: Vec<u8>, body_bytes_max: usize) -> Result<Self, StoreError> {
        check_size(BODY, body.len(), body_bytes_max)?;
        let (bytes, zstd) = compression::pack(body)?;
        let sum = crc32fast::hash(&bytes);
        Ok(Self { bytes, about: StoredBody { sum, zstd } })
    }

    /// Returns the stored size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }
}

#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

impl Row {
    /// Encodes a record as a row, and compresses its body if the feature `zstd` is on.
    ///
    /// # Errors
    /// [`TooLarge`](StoreError::TooLarge) for a body above `body_bytes_max`, and
    /// [`Invalid`](StoreError::Invalid) for a run id that is empty or contains a NUL.
    pub fn seal(run: &str, sequence: u64, header: &Header, body: Vec<u8>, body_bytes_max: usize) -> Result<Self, StoreError> {
        Self::seal_packed(run, sequence, header, PackedBody::pack(body, body_bytes_max)?)
    }

    /// Encodes a record as a row, with a packed body.
    pub(crate) fn seal_packed(run: &str, sequence: u64, header: &Header, body: PackedBody) -> Result<Self, StoreError> {
        check_text("run id", run)?;
        let PackedBody { bytes: body, about } = body;
        let stored = Stored { format: FORMAT, header, body: about };
        let header = serde_json::to_vec(&stored).map_err(StoreError::unavailable)?;
        let sum = sum_of_row(run, sequence, &header);
        Ok(Self { sequence, header, body, sum })
    }

    /// Checks all checksums and decodes the record.
    ///
    /// # Errors
    /// [`Damaged`](StoreError::Damaged) with the sequence of the row,
    /// [`NewerFormat`](StoreError::NewerFormat) for a later format, and
    /// [`Compressed`](StoreError::Compressed) without the feature `zstd`.
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

    /// Checks and decodes the header only. The body is not checked.
    ///
    /// # Errors
    /// As for [`open`](Self::open), except for errors of the body.
    pub fn open_header(&self, run: &str) -> Result<Header, StoreError> {
        self.checked_header(run).map(|(header, _)| header)
    }

    /// Returns the size in bytes, header and body together.
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
            return Err(StoreError::NewerFormat { what, format, known: FORMAT });
        }
        let Stored { header, body, .. } = serde_json::from_slice(&self.header).map_err(unreadable)?;
        Ok((header, body))
    }

    fn damaged(&self, run: &str, reason: &'static str) -> StoreError {
        StoreError::Damaged { run: run.to_string(), sequence: self.sequence, reason }
    }
}

/// A message to put into the inbox of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// The name: `signal/NAME`, `answer/KEY` or `command/VERB`; see [`kind`](Self::kind).
    pub name: String,
    /// The dedup text. Messages of one run with the same text are stored once.
    pub dedup: Option<String>,
    /// The content of the message, JSON for the messages of the engine.
    pub payload: Vec<u8>,
    /// The checksum of run id, name, dedup text and payload.
    pub sum: u32,
}

/// A stored message of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxMessage {
    /// The number in the inbox, from 1.
    pub number: u64,
    /// When the message was added, by the store's clock.
    pub at: Timestamp,
    /// The message as it was sent.
    pub message: NewMessage,
}

impl NewMessage {
    /// Creates a message with its checksum.
    pub fn seal(run: &str, name: impl Into<String>, dedup: Option<String>, payload: Vec<u8>) -> Self {
        let name = name.into();
        let sum = sum_of_message(run, &name, dedup.as_deref(), &payload);
        Self { name, dedup, payload, sum }
    }

    /// Checks the checksum and returns the payload.
    ///
    /// # Errors
    /// [`Damaged`](StoreError::Damaged) if the checksum differs.
    pub fn open(self, run: &str) -> Result<Vec<u8>, StoreError> {
        if sum_of_message(run, &self.name, self.dedup.as_deref(), &self.payload) == self.sum {
            return Ok(self.payload);
        }
        Err(StoreError::Damaged { run: run.to_string(), sequence: 0, reason: "the checksum of a message in its inbox differs" })
    }
}

/// Returns the checksum of a row of a log.
pub(super) fn sum_of_row(run: &str, sequence: u64, header: &[u8]) -> u32 {
    sum_of(&[run.as_bytes(), &sequence.to_le_bytes(), header])
}

fn sum_of_message(run: &str, name: &str, dedup: Option<&str>, payload: &[u8]) -> u32 {
    let has_dedup = [u8::from(dedup.is_some())];
    sum_of(&[run.as_bytes(), name.as_bytes(), &has_dedup, dedup.unwrap_or("").as_bytes(), payload])
}

/// Returns the checksum of several parts. Each part counts with its length, so a byte cannot move
/// from one part to the next.
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

    /// Bodies up to this size are not compressed.
    const BYTES_MIN: usize = 4 << 10;

    /// Returns the body to store, and its original size if it was compressed. A body that does not
    /// become smaller is stored uncompressed.
    pub(super) fn pack(body: Vec<u8>) -> Result<(Vec<u8>, Option<usize>), StoreError> {
        if body.len() <= BYTES_MIN {
            return Ok((body, None));
        }
        let packed = zstd::bulk::compress(&body, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(StoreError::unavailable)?;
        Ok(if packed.len() < body.len() { (packed, Some(body.len())) } else { (body, None) })
    }

    /// Decompresses at most `size` bytes. Memory grows with the output, because a damaged header
    /// can name any size.
    pub(super) fn unpack(body: &[u8], size: usize, run: &str, sequence: u64) -> Result<Vec<u8>, StoreError> {
        let mut unpacked = Vec::with_capacity(size.min(BODY_BYTES_MAX));
        let limit = (size as u64).saturating_add(1);
        let done = zstd::Decoder::with_buffer(body).and_then(|decoder| decoder.take(limit).read_to_end(&mut unpacked));
        if done.is_ok() && unpacked.len() <= size {
            return Ok(unpacked);
        }
        Err(StoreError::Damaged { run: run.to_string(), sequence, reason: "it does not decompress" })
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
