//! What a power cut may leave on a disk, computed from the log of writes.
//!
//! - A write is on the disk once its file was synced. Until then each of its sectors may be there,
//!   missing or torn. A torn sector holds garbage where the write was; the rest of it is unharmed,
//!   as SQLite expects ("powersafe overwrite").
//! - A created or removed file name is on the disk once its folder was synced. Until then some of
//!   the first such changes are.
//! - Data of a failed sync may never get to the disk, whatever is synced later.

use pleach_core::Random;
use std::collections::BTreeMap;
use std::path::Path;

/// The number of bytes that a disk writes at once.
const SECTOR: u64 = 512;

/// A change of the files in one folder.
#[derive(Clone, Debug)]
pub enum Event {
    Write {
        name: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// A write of zeros.
    Zeros {
        name: String,
        offset: u64,
        count: u64,
    },
    Truncate {
        name: String,
        length: u64,
    },
    Sync {
        name: String,
    },
    /// A sync that failed.
    Lost {
        name: String,
    },
    Remove {
        name: String,
    },
    /// A new name in the same folder.
    Rename {
        name: String,
        new: String,
    },
    Acknowledged {
        run: String,
        head: u64,
    },
}

/// The events of each folder below the watched one. Those of the watched folder itself have an
/// empty name.
pub fn events(log: &[u8]) -> BTreeMap<String, Vec<Event>> {
    let mut folders = BTreeMap::<String, Vec<Event>>::new();
    let mut rest = log;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(&rest[..end]).unwrap();
        rest = &rest[end + 1..];
        let words: Vec<&str> = line.split(' ').collect();
        let (folder, name) = words[1].rsplit_once('/').unwrap_or(("", words[1]));
        let name = name.to_string();
        let event = match words[0] {
            "write" => {
                let (bytes, after) = rest.split_at(words[3].parse().unwrap());
                rest = after;
                match name.as_str() {
                    "acknowledged" => {
                        let (run, head) = std::str::from_utf8(bytes).unwrap().split_once(' ').unwrap();
                        Event::Acknowledged { run: run.into(), head: head.parse().unwrap() }
                    }
                    _ => Event::Write { name, offset: words[2].parse().unwrap(), bytes: bytes.to_vec() },
                }
            }
            "zeros" => Event::Zeros { name, offset: words[2].parse().unwrap(), count: words[3].parse().unwrap() },
            "truncate" => Event::Truncate { name, length: words[2].parse().unwrap() },
            "sync" => Event::Sync { name },
            "lost" => Event::Lost { name },
            "remove" => Event::Remove { name },
            "rename" => {
                let new = words[2].rsplit_once('/').map_or(words[2], |(_, new)| new);
                Event::Rename { name, new: new.to_string() }
            }
            other => panic!("unknown event {other}"),
        };
        folders.entry(folder.to_string()).or_default().push(event);
    }
    folders
}

/// The content of a file: its length, and its bytes without trailing zeros.
#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    length: u64,
}

impl Content {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        self.length = self.length.max(end);
        self.bytes.resize(self.bytes.len().max(end as usize), 0);
        self.bytes[offset as usize..end as usize].copy_from_slice(bytes);
    }

    fn write_zeros(&mut self, offset: u64, count: u64) {
        self.length = self.length.max(offset + count);
        let end = self.bytes.len().min((offset + count) as usize);
        self.bytes[(offset as usize).min(end)..end].fill(0);
    }

    fn truncate(&mut self, length: u64) {
        self.bytes.truncate(length as usize);
        self.length = length;
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Zeros { offset: u64, count: u64 },
    Truncate { length: u64 },
}

/// A file under any name: its synced content and its unsynced changes.
#[derive(Clone, Debug, Default)]
struct Stored {
    synced: Content,
    unsynced: Vec<Change>,
}

/// Which unsynced changes are on the disk.
pub enum Kept<'a> {
    All,
    None,
    /// The changes whose bit is set, oldest first. Of the name changes all or none.
    Each(u64),
    /// A random choice of sectors. Some of the unwritten sectors that the file has grown by hold
    /// garbage.
    Sectors(&'a mut Random),
    /// The same, and any sector may be torn.
    Torn(&'a mut Random),
}

/// A folder on the disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    files: Vec<Stored>,
    /// The file of each name as programs see it, as synced, and the changes in between.
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    unsynced_names: Vec<(String, Option<usize>)>,
    /// The highest acknowledged sequence number of each run.
    pub acknowledged: BTreeMap<String, u64>,
}

impl Disk {
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Write { name, offset, bytes } => {
                let change = Change::Write { offset: *offset, bytes: bytes.clone() };
                self.file(name).unsynced.push(change);
            }
            Event::Zeros { name, offset, count } => {
                self.file(name).unsynced.push(Change::Zeros { offset: *offset, count: *count });
            }
            Event::Truncate { name, length } => self.file(name).unsynced.push(Change::Truncate { length: *length }),
            Event::Sync { name } if name.is_empty() => {
                self.synced_names = self.names.clone();
                self.unsynced_names.clear();
            }
            Event::Sync { name } => {
                let file = self.file(name);
                for change in std::mem::take(&mut file.unsynced) {
                    change.apply(&mut file.synced);
                }
            }
            Event::Lost { name } if name.is_empty() => {}
            Event::Lost { name } => self.file(name).unsynced.clear(),
            Event::Remove { name } => {
                self.names.remove(name);
                self.unsynced_names.push((name.clone(), None));
            }
            Event::Rename { name, new } => {
                let file = self.names.remove(name).unwrap();
                self.names.insert(new.clone(), file);
                self.unsynced_names.push((new.clone(), Some(file)));
                self.unsynced_names.push((name.clone(), None));
            }
            Event::Acknowledged { run, head } => drop(self.acknowledged.insert(run.clone(), *head)),
        }
    }

    /// The number of changes that may or may not be on the disk.
    pub fn unsynced_count(&self) -> usize {
        self.files.iter().map(|file| file.unsynced.len()).sum()
    }

    /// Writes the files as a power cut leaves them.
    pub fn write_image(&self, folder: &Path, mut kept: Kept<'_>) {
        let mut names = self.synced_names.clone();
        let names_kept = match &mut kept {
            Kept::All => self.unsynced_names.len(),
            Kept::None => 0,
            Kept::Each(bits) => self.unsynced_names.len() * (bits.count_ones() as usize % 2),
            Kept::Sectors(random) | Kept::Torn(random) => (random.next_u64() as usize) % (self.unsynced_names.len() + 1),
        };
        for (name, file) in &self.unsynced_names[..names_kept] {
            match file {
                Some(file) => names.insert(name.clone(), *file),
                None => names.remove(name),
            };
        }
        let mut number = 0;
        for (name, file) in names {
            let file = &self.files[file];
            let mut content = file.synced.clone();
            for change in &file.unsynced {
                match &mut kept {
                    Kept::All => change.apply(&mut content),
                    Kept::None => {}
                    Kept::Each(bits) if *bits >> number & 1 == 1 => change.apply(&mut content),
                    Kept::Each(_) => {}
                    Kept::Sectors(random) => change.apply_in_part(&mut content, random, false),
                    Kept::Torn(random) => change.apply_in_part(&mut content, random, true),
                }
                number += 1;
            }
            let image = std::fs::File::create(folder.join(name)).unwrap();
            std::io::Write::write_all(&mut &image, &content.bytes).unwrap();
            image.set_len(content.length).unwrap();
        }
    }

    fn file(&mut self, name: &str) -> &mut Stored {
        let number = *self.names.entry(name.to_string()).or_insert_with(|| {
            self.files.push(Stored::default());
            self.unsynced_names.push((name.to_string(), Some(self.files.len() - 1)));
            self.files.len() - 1
        });
        &mut self.files[number]
    }
}

impl Change {
    fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write(*offset, bytes),
            Self::Zeros { offset, count } => content.write_zeros(*offset, *count),
            Self::Truncate { length } => content.truncate(*length),
        }
    }

    fn apply_in_part(&self, content: &mut Content, random: &mut Random, is_torn: bool) {
        let Self::Write { offset, bytes } = self else {
            if random.next_u64().is_multiple_of(2) {
                self.apply(content);
            }
            return;
        };
        let grown_from = content.length;
        let (mut at, end) = (*offset, offset + bytes.len() as u64);
        while at < end {
            let next = (at / SECTOR * SECTOR + SECTOR).min(end);
            let sector = &bytes[(at - offset) as usize..(next - offset) as usize];
            match random.next_u64() % 4 {
                0 | 1 => content.write(at, sector),
                2 if is_torn || at >= grown_from => content.write(at, &vec![random.next_u64() as u8; sector.len()]),
                _ => {}
            }
            at = next;
        }
    }
}
