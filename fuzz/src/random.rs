//! A source of randomness for one case, and the mutations that targets apply to valid input.

/// Bytes that parsers treat in a special way.
const DICTIONARY: [&[u8]; 27] = [
    b"/",
    b"//",
    b"$",
    b"$0",
    b".",
    b"..",
    b" ",
    b"\0",
    b"\"",
    b"\\",
    b"\\u0000",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e999",
    b"4294967295",
    b"18446744073709551615",
    b"9223372036854775808",
    "\u{fffd}多".as_bytes(),
    b"\xff\xfe",
];

/// A sequence of numbers that the seed, the target and the case fix.
pub struct Random(u64);

impl Random {
    /// The sequence of one case.
    pub fn new(seed: u64, target: &str, case: u64) -> Self {
        let mut random = Self(seed);
        for byte in target.bytes() {
            random.0 = random.next() ^ u64::from(byte);
        }
        random.0 = random.next() ^ case;
        random
    }

    /// The next number (SplitMix64).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Up to `len_max` bytes: random ones, or parts of the dictionary.
    pub fn bytes(&mut self, len_max: usize) -> Vec<u8> {
        let len = self.below(len_max + 1);
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            match self.below(3) {
                0 => bytes.push(self.next() as u8),
                1 => bytes.push(b'a' + self.below(26) as u8),
                _ => bytes.extend_from_slice(DICTIONARY[self.below(DICTIONARY.len())]),
            }
        }
        bytes
    }

    /// The same as text, with replacement characters for invalid UTF-8.
    pub fn text(&mut self, len_max: usize) -> String {
        String::from_utf8_lossy(&self.bytes(len_max)).into_owned()
    }

    /// Changes a few bytes.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            let end = at + self.below((bytes.len() - at).min(16) + 1);
            match self.below(5) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
                2 => {
                    let new = self.bytes(8);
                    bytes.splice(at..end, new);
                }
                3 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => self.replace_number(bytes),
            }
        }
    }

    /// Replaces a number in JSON: the text stays valid, but its meaning changes.
    fn replace_number(&mut self, bytes: &mut Vec<u8>) {
        let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
        let Some(at) = digits.get(self.below(digits.len())) else { return };
        let end = at + bytes[*at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let numbers = ["0", "1", "2", "3", "7", "4294967295", "9223372036854775808", "18446744073709551615"];
        let number = numbers[self.below(numbers.len())];
        bytes.splice(*at..end, number.bytes());
    }
}
