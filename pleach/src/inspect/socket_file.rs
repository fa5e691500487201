//! [`SocketFile`]: a local socket at a path, from its creation to its removal.
//!
//! Invariants:
//! 1. The socket has mode 0600 from the moment at which it is visible: it is made in a private
//!    directory and then linked to its path.
//! 2. A file of a live process, of another user, or of another type is never replaced.
//! 3. The file is removed when the value is dropped, unless another file has taken its place.

use crate::inspect::options::InspectError;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The longest address of a local socket on Linux, without the final zero. Other systems allow a
/// little less, and report it as an error.
const ADDRESS_LEN_MAX: usize = 107;

/// How many sockets this process has bound, for the names of their private directories.
static BOUND: AtomicUsize = AtomicUsize::new(0);

/// A bound socket and its file.
pub(super) struct SocketFile {
    pub(super) listener: tokio::net::UnixListener,
    _file: VisibleFile,
}

impl SocketFile {
    /// Binds a socket at `path`. Replaces the file of a process that has died.
    pub(super) fn bind(path: &Path) -> Result<Self, InspectError> {
        let failed = |error| InspectError::Io { path: path.to_owned(), error };
        let directory = match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory,
            _ => Path::new("."),
        };
        let private = PrivateDirectory::make(directory).map_err(failed)?;
        let socket = private.0.join("s");
        if socket.as_os_str().as_bytes().len().max(path.as_os_str().as_bytes().len()) > ADDRESS_LEN_MAX {
            return Err(InspectError::TooLong(path.to_owned()));
        }
        let own = fs::metadata(&private.0).map_err(failed)?.uid();
        check_directory(path, &fs::metadata(directory).map_err(failed)?, own)?;
        // Before the stale file is removed: otherwise the new socket could get its inode, and
        // another process that starts now would take it for the stale file.
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        remove_stale(path, own)?;
        fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(failed)?;
        let file = identity(&fs::symlink_metadata(&socket).map_err(failed)?);
        // A link fails if the path exists by now, where a rename would replace it.
        match fs::hard_link(&socket, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(InspectError::InUse(path.to_owned())),
            linked => linked.map_err(failed)?,
        }
        let visible = VisibleFile { path: path.to_owned(), file };
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = in_runtime(listener).map_err(|error| error.map_or(InspectError::NoRuntime, failed))?;
        Ok(Self { listener, _file: visible })
    }
}

/// Registers the listener with the current Tokio runtime. `Err(None)`: there is none, or it has no
/// I/O.
fn in_runtime(listener: UnixListener) -> Result<tokio::net::UnixListener, Option<io::Error>> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(None);
    }
    // Tokio panics if its runtime has no I/O.
    match pleach_core::catch_panic(|| tokio::net::UnixListener::from_std(listener)) {
        Ok(registered) => registered.map_err(Some),
        Err(_) => Err(None),
    }
}

/// The file at its path. Dropping it removes the file.
struct VisibleFile {
    path: PathBuf,
    /// Device and inode, to recognise the file.
    file: (u64, u64),
}

impl Drop for VisibleFile {
    fn drop(&mut self) {
        remove_if_same(&self.path, self.file);
    }
}

fn remove_if_same(path: &Path, file: (u64, u64)) {
    if fs::symlink_metadata(path).is_ok_and(|found| identity(&found) == file) {
        drop(fs::remove_file(path));
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Fails if other users can replace files of this user in the directory.
fn check_directory(path: &Path, directory: &Metadata, own: u32) -> Result<(), InspectError> {
    let (mode, owner) = (directory.mode(), directory.uid());
    let is_sticky = mode & 0o1000 != 0;
    let others_write = mode & 0o022 != 0 && !is_sticky;
    if others_write || (owner != own && owner != 0) {
        return Err(InspectError::OpenDirectory(path.to_owned()));
    }
    Ok(())
}

/// Removes the socket of a process that has died.
fn remove_stale(path: &Path, own: u32) -> Result<(), InspectError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(InspectError::Io { path: path.to_owned(), error }),
    };
    if !found.file_type().is_socket() || found.uid() != own {
        return Err(InspectError::Foreign(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            remove_if_same(path, identity(&found));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) | Err(_) => Err(InspectError::InUse(path.to_owned())),
    }
}

/// A directory that only this user can enter, removed on drop.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    fn make(parent: &Path) -> io::Result<Self> {
        loop {
            let number = BOUND.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!(".i{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                // A process with the same id has died here before.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(path)),
            }
        }
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        drop(fs::remove_file(self.0.join("s")));
        drop(fs::remove_dir(&self.0));
    }
}
