//! The till: a file with one line per charge, as a bank outside of the program would keep it. A
//! kill of the worker does not revert it.
//!
//! A line has the run and the key of the charge. The bank refuses a key that it knows: a repeated
//! line moves no money.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// The file.
#[derive(Clone)]
pub struct Till(PathBuf);

/// What the till has charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// The different keys of each run.
    keys: BTreeMap<String, BTreeSet<String>>,
    /// How many requests repeated a key.
    pub repeated: u64,
}

impl Till {
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Asks for a charge. A line is one write, so a kill leaves a whole line or none.
    pub fn charge(&self, run: &str, key: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{run}\t{key}\n").as_bytes())
    }

    /// Reads all charges. A missing file has none.
    pub fn charges(&self) -> io::Result<Charges> {
        match fs::read_to_string(&self.0) {
            Ok(text) => Ok(Charges::parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Charges::default()),
            Err(error) => Err(error),
        }
    }
}

impl Charges {
    fn parse(text: &str) -> Self {
        let mut charges = Self::default();
        for (run, key) in text.lines().filter_map(|line| line.split_once('\t')) {
            if !charges.keys.entry(run.to_string()).or_default().insert(key.to_string()) {
                charges.repeated += 1;
            }
        }
        charges
    }

    /// Returns how many runs were charged.
    pub fn runs(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Returns how many charges were made.
    pub fn made(&self) -> u64 {
        self.keys.values().map(|keys| keys.len() as u64).sum()
    }

    /// Returns how often a run was charged.
    pub fn of(&self, run: &str) -> usize {
        self.keys.get(run).map_or(0, BTreeSet::len)
    }

    /// Returns a run that was charged more than once, if any.
    pub fn charged_twice(&self) -> Option<&str> {
        self.keys.iter().find(|(_, keys)| keys.len() > 1).map(|(run, _)| run.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_key_moves_no_money_and_another_key_does() {
        let charges = Charges::parse("order-1\ta\norder-2\tb\norder-2\tb\n");
        assert_eq!((charges.runs(), charges.made(), charges.repeated), (2, 2, 1));
        assert_eq!((charges.of("order-2"), charges.of("order-3"), charges.charged_twice()), (1, 0, None));
        let twice = Charges::parse("order-1\ta\norder-1\tb\n");
        assert_eq!((twice.made(), twice.repeated, twice.charged_twice()), (2, 0, Some("order-1")));
    }
}
