//! A disk that can be watched, can fail and can be full, under a process of its own: `disk.c` says how.
//!
//! A C compiler is there wherever SQLite was built, so a test that needs it is never skipped.
#![allow(dead_code)]

pub mod replay;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder whose files are watched. A test that finds this variable is the process that uses it.
const FOLDER: &str = "PLEACH_DISK_FOLDER";

/// The folder that this process is to use, if it was started by [`run`].
pub fn watched() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs a test of this program once more, as a process whose files below `folder` are watched. What was written lies in the log.
pub fn run(test: &str, folder: &Path, log: &Path) {
    let folder = folder.canonicalize().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", test, "--nocapture"]).env("LD_PRELOAD", library()).env(FOLDER, folder).env("PLEACH_DISK_LOG", log);
    let output = process.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // Another test may be making it as well: each makes its own, and the last one is kept.
        let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pleach-disk.so");
        let fresh = library.with_extension(std::process::id().to_string());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk/disk.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&fresh).arg(source).arg("-ldl");
        let output = command.output().expect("there is a C compiler, which SQLite needs as well");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(fresh, &library).unwrap();
        library
    })
}

/// Notes beside the writes that something was acknowledged.
pub struct Acknowledged(File);

impl Acknowledged {
    pub fn below(folder: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(folder.join("acknowledged")).unwrap())
    }

    /// In one write: a note is whole.
    pub fn note(&mut self, run: &str, head: u64) {
        self.0.write_all(format!("{run} {head}").as_bytes()).unwrap();
    }
}

/// Orders to the disk.
pub struct Faults(File);

impl Faults {
    pub fn of(folder: &Path) -> Self {
        let mut faults = Self(File::create(folder.join("faults")).unwrap());
        assert!(!faults.were_hit(), "the files of this process are not watched");
        faults
    }

    /// The call with this number from now on fails, and so do those after it, `count` in all; without a count, for good.
    pub fn fail(&mut self, call: u32, error: i32, count: Option<u32>) {
        self.order(format!("fail {call} {error} {}", count.unwrap_or(0)));
    }

    /// The files in the folder may hold so many bytes together.
    pub fn bound(&mut self, bytes: u64) {
        self.order(format!("room {bytes}"));
    }

    /// The sync with this number from now on fails, and this process ends there, as if it were killed.
    pub fn die(&mut self, sync: u32) {
        self.order(format!("die {sync}"));
    }

    pub fn heal(&mut self) {
        self.order("heal".into());
    }

    /// Whether something has failed since the order to do so.
    pub fn were_hit(&mut self) -> bool {
        self.0.write(b"hit?").is_ok()
    }

    fn order(&mut self, order: String) {
        self.0.write_all(order.as_bytes()).unwrap();
    }
}
