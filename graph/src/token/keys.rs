//! Idempotency keys: hashes of a run and a token that are equal in every process and version.

use crate::token::TokenId;
use sha2::{Digest as _, Sha256};

/// Computes the idempotency keys of one run.
///
/// A key is the first 160 bits of a SHA-256 in the digits of Crockford's base 32. Runs with
/// instance 0 come from before instances existed. Their keys stay FNV-1a hashes, for which
/// collisions can be constructed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyMaker<'a> {
    pub(crate) run: &'a str,
    /// The instance of the run; `None` for a run that is not stored.
    pub(crate) instance: Option<u64>,
    pub(crate) is_undo: bool,
}

impl KeyMaker<'_> {
    /// Returns the key of a visit. All attempts of one visit share it, no other visit has it, and
    /// the undo has another one.
    pub(crate) fn of_visit(self, token: TokenId) -> String {
        let Self { run, instance, is_undo } = self;
        let TokenId { sequence, branch } = token;
        if instance == Some(0) {
            let mut hash = Fnv::new();
            hash.write(run.as_bytes());
            hash.write(&[0xff, u8::from(is_undo)]);
            hash.write(&sequence.to_le_bytes());
            hash.write(&branch.to_le_bytes());
            return hash.text();
        }
        let mut hash = Sha256::new_with_prefix(b"pleach visit 2");
        hash.update((run.len() as u64).to_le_bytes());
        hash.update(run.as_bytes());
        hash.update(instance.unwrap_or(0).to_le_bytes());
        hash.update([u8::from(is_undo)]);
        hash.update(sequence.to_le_bytes());
        hash.update(branch.to_le_bytes());
        key_text(&hash.finalize())
    }

    /// Returns the key of one effect of a visit.
    pub(crate) fn of_effect(self, token: TokenId, effect: &str) -> String {
        let visit = self.of_visit(token);
        if self.instance == Some(0) {
            let mut hash = Fnv::new();
            hash.write(visit.as_bytes());
            hash.write(effect.as_bytes());
            return hash.text();
        }
        let mut hash = Sha256::new_with_prefix(b"pleach effect 2");
        hash.update(visit.as_bytes());
        hash.update(effect.as_bytes());
        key_text(&hash.finalize())
    }
}

/// Encodes the first 160 bits as 32 characters.
fn key_text(hash: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let bit = |at: usize| usize::from(hash[at / 8] >> (7 - at % 8) & 1);
    (0..32).map(|digit| DIGITS[(0..5).fold(0, |value, at| value << 1 | bit(digit * 5 + at))] as char).collect()
}

/// FNV-1a with 128 bits: a hash that is equal on every machine and in every version.
pub(crate) struct Fnv(u128);

impl Fnv {
    pub(crate) fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    pub(crate) fn text(&self) -> String {
        format!("{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_matches_the_published_test_vectors() {
        let of = |text: &str| {
            let mut hash = Fnv::new();
            hash.write(text.as_bytes());
            hash.text()
        };
        assert_eq!(of(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(of("foobar"), "343e1662793c64bf6f0d3597ba446f18");
    }

    fn keys(instance: Option<u64>) -> Vec<String> {
        let maker = |run, is_undo| KeyMaker { run, instance, is_undo };
        let id = |sequence, branch| TokenId { sequence, branch };
        vec![
            maker("a", false).of_visit(id(1, 0)),
            maker("b", false).of_visit(id(1, 0)),
            maker("a", false).of_visit(id(2, 0)),
            maker("a", false).of_visit(id(1, 1)),
            maker("a", true).of_visit(id(1, 0)),
            maker("a", false).of_effect(id(1, 0), "charge"),
            maker("a", false).of_effect(id(1, 0), "refund"),
        ]
    }

    #[test]
    fn c3_keys_differ_by_run_instance_sequence_branch_and_effect() {
        let all: Vec<String> = [Some(0), Some(1), Some(2), None].into_iter().flat_map(keys).collect();
        for (at, key) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == key), Some(at), "{key}");
            assert!(key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()), "{key}");
        }
    }

    #[test]
    fn c7_keys_of_runs_without_an_instance_are_unchanged() {
        let maker = KeyMaker { run: "order-7", instance: Some(0), is_undo: false };
        let token = TokenId { sequence: 3, branch: 1 };
        assert_eq!(maker.of_visit(token), "89422c68438a8fddcebd3821d1f38ae6");
        assert_eq!(maker.of_effect(token, "charge"), "0f2fb7e3d93e51884345f81c0829094d");
    }

    #[test]
    fn c3_keys_are_equal_in_every_version() {
        let maker = KeyMaker { run: "order-7", instance: Some(77), is_undo: false };
        let token = TokenId { sequence: 3, branch: 1 };
        assert_eq!(maker.of_visit(token), "7tqnm7sq7p6eaf39hgdwytzgrwxqnsa3");
        assert_eq!(maker.of_effect(token, "charge"), "4scvxkzecyrexrdy9njavbpd54k3ytz5");
    }
}
