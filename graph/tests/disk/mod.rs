//! A disk that can be watched, can fail and can be full, under a separate process. See `disk.c`.
//!
//! A C compiler exists wherever SQLite was built, so these tests are never skipped.
#![allow(dead_code)]

pub mod replay;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder whose files are watched. If this variable is set, the test is the watched process.
const FOLDER: &str = "PLEACH_DISK_FOLDER";

/// The folder to use, if this process was started by [`run`].
pub fn watched() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs a test of this program again as a process whose files below `folder` are watched. All
/// writes are in `log`.
pub fn run(test: &str, folder: &Path, log: &Path) {
    let folder = folder.canonicalize().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", test, "--nocapture"]).env("LD_PRELOAD", library()).env(FOLDER, folder).env("PLEACH_DISK_LOG", log);
    let output = process.output().unwrap();
    let output_text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output_text));
}

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // Another test may compile it at the same time: each compiles its own file, and the last
        // rename wins.
        let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pleach-disk.so");
        let fresh = library.with_extension(std::process::id().to_string());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk/disk.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&fresh).arg(source).arg("-ldl");
        let output = command.output().expect("a C compiler, which SQLite needs as well");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(fresh, &library).unwrap();
        library
    })
}

/// Writes acknowledgements into the watched log.
pub struct Acknowledged(File);

impl Acknowledged {
    pub fn below(folder: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(folder.join("acknowledged")).unwrap())
    }

    /// One write per note, so a note is complete.
    pub fn note(&mut self, run: &str, head: u64) {
        self.0.write_all(format!("{run} {head}").as_bytes()).unwrap();
    }
}

/// Commands to the disk.
pub struct Faults(File);

impl Faults {
    pub fn of(folder: &Path) -> Self {
        let mut faults = Self(File::create(folder.join("faults")).unwrap());
        assert!(!faults.were_hit(), "the files of this process are not watched");
        faults
    }

    /// Fails `count` calls, beginning with this call counted from now on. Without a count, all of
    /// them.
    pub fn fail(&mut self, call: u32, error: i32, count: Option<u32>) {
        self.order(format!("fail {call} {error} {}", count.unwrap_or(0)));
    }

    /// Limits the total size of the files in the folder.
    pub fn bound(&mut self, bytes: u64) {
        self.order(format!("room {bytes}"));
    }

    /// Fails this sync, counted from now on, and ends the process there as if it was killed.
    pub fn die(&mut self, sync: u32) {
        self.order(format!("die {sync}"));
    }

    pub fn heal(&mut self) {
        self.order("heal".into());
    }

    /// Whether a call has failed since the last command to fail.
    pub fn were_hit(&mut self) -> bool {
        self.0.write(b"hit?").is_ok()
    }

    fn order(&mut self, order: String) {
        self.0.write_all(order.as_bytes()).unwrap();
    }
}
