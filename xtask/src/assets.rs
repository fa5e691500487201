//! `cargo xtask assets`: the table of the console's page, `console/src/assets.rs`.
//!
//! The console embeds each file of `console/web` compressed, from `console/web/gz`. Both are made
//! here and checked in, so that a build needs neither a build script nor a compressor.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xtask::step::Outcome;

const WEB: &str = "console/web";
const GZ: &str = "console/web/gz";
const TABLE: &str = "console/src/assets.rs";

/// The file that is served for every page.
const PAGE: &str = "index.html";

const HEAD: &str = "\
//! The files of the page, compressed. Written by `cargo xtask assets`; do not edit.

/// A file of the page.
pub(crate) struct Asset {
    /// The route.
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    /// The contents, compressed with gzip.
    pub(crate) gzip: &'static [u8],
    /// Changes with the contents; for `ETag`.
    pub(crate) hash: &'static str,
}

/// All files. The first one is the page.
pub(crate) static ASSETS: &[Asset] = &[
";

/// A file below `console/web` that the console serves.
struct File {
    /// Relative to `console/web`.
    name: String,
    contents: Vec<u8>,
}

impl File {
    fn route(&self) -> String {
        if self.name == PAGE { "/".into() } else { format!("/assets/{}", self.name) }
    }

    fn compressed_name(&self) -> String {
        format!("{}.gz", self.name.replace('/', "__"))
    }

    fn content_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }

    /// FNV-1a, 64 bits: it has to notice changes, not attacks.
    fn hash(&self) -> String {
        let hash = self
            .contents
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{hash:016x}")
    }
}

/// Writes the table and the compressed files that changed.
pub fn write(root: &Path) -> Outcome {
    let files = files(root)?;
    let folder = root.join(GZ);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    for old in fs::read_dir(&folder).into_iter().flatten().flatten() {
        if !files.iter().any(|file| *file.compressed_name() == *old.file_name()) {
            drop(fs::remove_file(old.path()));
        }
    }
    let mut bytes = 0;
    for file in &files {
        let path = folder.join(file.compressed_name());
        if decompressed(&path).ok().as_ref() != Some(&file.contents) {
            let compressed = piped(Command::new("gzip").args(["-9", "-n", "-c"]).arg(root.join(WEB).join(&file.name)))?;
            fs::write(&path, compressed).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        bytes += fs::metadata(&path).map_or(0, |file| file.len());
    }
    fs::write(root.join(TABLE), table(&files)).map_err(|error| format!("cannot write {TABLE}: {error}"))?;
    println!("{TABLE}: {} files, {bytes} bytes compressed", files.len());
    Ok(())
}

/// Fails if the table or a compressed file is not that of the page.
pub fn check(root: &Path) -> Outcome {
    let files = files(root)?;
    let is_same = fs::read_to_string(root.join(TABLE)).is_ok_and(|known| known == table(&files));
    let old = files
        .iter()
        .find(|file| decompressed(&root.join(GZ).join(file.compressed_name())).ok().as_ref() != Some(&file.contents));
    match old {
        None if is_same => Ok(()),
        None => Err(format!("{TABLE} is not the table of {WEB}; run `cargo xtask assets`")),
        Some(file) => Err(format!("{GZ}/{} is old; run `cargo xtask assets`", file.compressed_name())),
    }
}

fn table(files: &[File]) -> String {
    let mut text = HEAD.to_owned();
    for file in files {
        let (path, kind, gzip, hash) = (file.route(), file.content_type(), file.compressed_name(), file.hash());
        let _ = write!(
            text,
            "    Asset {{\n        path: \"{path}\",\n        content_type: \"{kind}\",\n        \
             gzip: include_bytes!(\"../web/gz/{gzip}\"),\n        hash: \"{hash}\",\n    }},\n"
        );
    }
    text + "];\n"
}

/// The files to serve, the page first.
fn files(root: &Path) -> Result<Vec<File>, String> {
    let web = root.join(WEB);
    let mut names = Vec::new();
    collect(&web, &web, &mut names)?;
    names.sort_by_key(|name| (name != PAGE, name.clone()));
    names
        .into_iter()
        .map(|name| {
            let contents = fs::read(web.join(&name)).map_err(|error| format!("cannot read {WEB}/{name}: {error}"))?;
            Ok(File { name, contents })
        })
        .collect()
}

fn collect(web: &Path, folder: &Path, names: &mut Vec<String>) -> Outcome {
    let complain = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(complain)? {
        let path: PathBuf = entry.map_err(complain)?.path();
        let is_served = path.extension().is_some_and(|kind| ["html", "css", "js", "svg"].iter().any(|served| kind == *served));
        if path.is_dir() && path != web.join("gz") {
            collect(web, &path, names)?;
        } else if is_served && let Ok(name) = path.strip_prefix(web) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

fn decompressed(path: &Path) -> Result<Vec<u8>, String> {
    piped(Command::new("gzip").args(["-d", "-c"]).arg(path))
}

fn piped(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run gzip: {error}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
