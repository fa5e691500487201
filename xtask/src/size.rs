//! `cargo xtask size`: the flash and the memory of small programs on Cortex-M3.
//!
//! The flash is that of the program `size` in `embassy/boards`, built with `opt-level = "s"` and
//! LTO. The memory is what the checks measure on the emulated board.

use crate::embedded::{BOARDS, Tools};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const MANIFEST: &str = "embassy/boards/Cargo.toml";

/// What each figure must not exceed: what was last measured, and a little more.
const FLASH_MAX: u64 = 169_500;
const FLASH_TYPE_MAX: u64 = 14_500;
const IDLE_MAX: u64 = 340;
const EMPTY_MAX: u64 = 1_024;

/// Measures, and returns a table. Fails if a figure exceeds its limit.
pub fn report(root: &Path) -> Result<String, String> {
    let tools = Tools::find()?;
    let [_, board, ..] = &BOARDS;
    let mut flash = Vec::new();
    for features in [&[][..], &["second"], &["second", "third"]] {
        flash.push(flash_of(&tools.build(root, MANIFEST, board, "size", features)?)?);
    }
    let checks = tools.build(root, MANIFEST, board, "checks", &[])?;
    let printed = tools.run(&["qemu-system-arm", "-M", "mps2-an385"], &checks)?;
    let rows = [
        ("flash: one supervised actor, a timer, an ask", flash[0], FLASH_MAX),
        ("flash: each further actor type", (flash[2] - flash[0]) / 2, FLASH_TYPE_MAX),
        ("memory: an idle actor", printed_size(&printed, "idle_actor")?, IDLE_MAX),
        ("memory: an empty system", printed_size(&printed, "empty_system")?, EMPTY_MAX),
    ];
    let mut table = format!("{:46} {:>9} {:>9}\n", "", "bytes", "limit");
    for (name, bytes, max) in rows {
        let _ = writeln!(table, "{name:46} {bytes:>9} {max:>9}");
    }
    match rows.iter().find(|(_, bytes, max)| bytes > max) {
        Some((name, bytes, max)) => Err(format!("{table}{name}: {bytes} bytes are more than the limit of {max}")),
        None => Ok(table),
    }
}

/// Returns the number in the line `size NAME NUMBER`.
fn printed_size(printed: &str, name: &str) -> Result<u64, String> {
    let number = printed.lines().find_map(|line| line.strip_prefix("size ")?.strip_prefix(name)?.trim().parse().ok());
    number.ok_or_else(|| format!("{printed}\nthe checks print no size of {name}"))
}

/// Returns how many bytes a program occupies in flash: the file contents of its loaded segments.
fn flash_of(program: &Path) -> Result<u64, String> {
    let file = fs::read(program).map_err(|error| format!("cannot read {}: {error}", program.display()))?;
    flash_of_elf(&file).ok_or_else(|| format!("{} is no program for a 32-bit board", program.display()))
}

/// Reads the program headers of a 32-bit little-endian ELF file.
fn flash_of_elf(file: &[u8]) -> Option<u64> {
    const LOAD: u32 = 1;
    let word = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)));
    if file.get(..5)? != b"\x7FELF\x01" {
        return None;
    }
    let (start, size, count) = (word(28)? as usize, half(42)?, half(44)?);
    let mut bytes = 0;
    for header in (0..count).map(|nth| start + nth * size) {
        if word(header)? == LOAD {
            bytes += u64::from(word(header + 16)?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_is_the_contents_of_loaded_segments() {
        let mut file = vec![0; 52 + 2 * 32];
        file[..5].copy_from_slice(b"\x7FELF\x01");
        (file[28], file[42], file[44]) = (52, 32, 2);
        // A loaded segment of 0x1234 bytes in the file, and a note.
        (file[52], file[52 + 16], file[52 + 17]) = (1, 0x34, 0x12);
        (file[84], file[84 + 16]) = (4, 0xFF);
        assert_eq!(flash_of_elf(&file), Some(0x1234));
        assert_eq!(flash_of_elf(b"\x7FELF\x02"), None);
    }

    #[test]
    fn printed_sizes_are_found_by_name() {
        let printed = "ok ask\nsize idle_actor 338\n";
        assert_eq!(printed_size(printed, "idle_actor"), Ok(338));
        assert!(printed_size(printed, "empty_system").is_err());
    }
}
