//! [`RecordFile`]: the record of actions in a file, one JSON object on each line.
//!
//! The file outlives the console. It is bounded: at [`FILE_MAX`] it is renamed to `NAME.old`, which
//! replaces an earlier one, and a new file begins. One console writes to a file at a time.

use super::log::Entry;
use std::fs::{File, Metadata, OpenOptions, TryLockError, rename, symlink_metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The most bytes of a file.
const FILE_MAX: u64 = 64 * 1024 * 1024;

/// How much of the end of a file is read when a console starts.
const READ_MAX: u64 = 8 * 1024 * 1024;

/// The file of a record, open for its only writer.
#[derive(Debug)]
pub(crate) struct RecordFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max: u64,
    /// At which size a new file begins: `max`, and later if that failed.
    full_at: u64,
    /// Whether the last line is not whole, because a console ended while it wrote.
    is_cut: bool,
}

impl RecordFile {
    /// Opens or creates a file, readable for its owner only, and reads its newest entries.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<Entry>)> {
        Self::bounded(path, FILE_MAX)
    }

    pub(super) fn bounded(path: &Path, max: u64) -> io::Result<(Self, Vec<Entry>)> {
        let mut file = private(path)?;
        lock(&file)?;
        let bytes = file.metadata()?.len();
        let begin = bytes.saturating_sub(READ_MAX);
        file.seek(SeekFrom::Start(begin))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let is_cut = text.last().is_some_and(|last| *last != b'\n');
        let lines = text.split(|byte| *byte == b'\n').skip(usize::from(begin > 0));
        // A line that is no entry was cut, or written by something else: it stays where it is.
        let entries = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok((Self { path: path.to_path_buf(), file, bytes, max, full_at: max, is_cut }, entries))
    }

    /// Writes an entry to the end of the file. Does not wait for the disk.
    pub(super) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = if self.is_cut { b"\n".to_vec() } else { Vec::new() };
        serde_json::to_writer(&mut line, entry)?;
        line.push(b'\n');
        let is_full = self.bytes > 0 && self.bytes + line.len() as u64 > self.full_at;
        if let Err(error) = if is_full { self.begin_file() } else { Ok(()) } {
            self.full_at = self.bytes + self.max;
            let (path, bytes) = (self.path.display(), self.bytes);
            tracing::error!(target: "pleach::console", %error, %path, bytes,
                "the record of actions cannot begin a new file; it continues in the old one, which grows");
        }
        self.is_cut = true;
        self.file.write_all(&line)?;
        self.is_cut = false;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Renames the file and begins a new one. After an error the open file is still written.
    fn begin_file(&mut self) -> io::Result<()> {
        if !has_name(&self.file.metadata()?, &self.path)? {
            return Err(io::Error::other("another file has its name"));
        }
        let mut old = self.path.clone().into_os_string();
        old.push(".old");
        rename(&self.path, &old)?;
        let begun = private(&self.path).and_then(|file| lock(&file).map(|()| file));
        match begun {
            Ok(file) => {
                (self.file, self.bytes, self.full_at) = (file, 0, self.max);
                Ok(())
            }
            Err(error) => {
                let is_free = symlink_metadata(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
                if is_free {
                    rename(&old, &self.path)?;
                }
                Err(error)
            }
        }
    }
}

/// Locks a file for its only writer. Does not wait.
fn lock(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::new(io::ErrorKind::WouldBlock, "another console writes to it"),
        TryLockError::Error(error) => error,
    })
}

/// Opens or creates a file, and lets only its owner read it, also if it was readable for others.
///
/// # Errors
/// For a symbolic link, for what is no regular file, and for a file of another user.
fn private(path: &Path) -> io::Result<File> {
    match symlink_metadata(path) {
        Ok(found) => check_regular(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let opened = file.metadata()?;
    check_regular(&opened)?;
    if !has_name(&opened, path)? {
        return Err(io::Error::other("it was replaced while it was opened"));
    }
    // Only the owner of a file may do this.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(file)
}

fn check_regular(found: &Metadata) -> io::Result<()> {
    if found.is_symlink() {
        return Err(io::Error::other("it is a symbolic link; name the file itself"));
    }
    if found.is_file() { Ok(()) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Returns whether an open file is the one at this path, and not behind a symbolic link.
#[cfg(unix)]
fn has_name(opened: &Metadata, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let named = symlink_metadata(path)?;
    Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino()))
}

#[cfg(not(unix))]
fn has_name(_opened: &Metadata, path: &Path) -> io::Result<bool> {
    Ok(symlink_metadata(path)?.is_file())
}
