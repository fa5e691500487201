//! C1, C2, C7, C10: a sealed row opens again, and a changed one does not.

use crate::common::{header, row};
use pleach_graph::store::{BODY_BYTES_MAX, NewMessage, Row, StoreError};

/// Every row that differs from this one in one bit.
fn flipped(row: &Row) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut flip = |bits: usize, change: fn(&mut Row, usize)| {
        for bit in 0..bits {
            let mut row = row.clone();
            change(&mut row, bit);
            rows.push(row);
        }
    };
    flip(row.header.len() * 8, |row, bit| row.header[bit / 8] ^= 1 << (bit % 8));
    flip(row.body.len() * 8, |row, bit| row.body[bit / 8] ^= 1 << (bit % 8));
    flip(32, |row, bit| row.sum ^= 1 << bit);
    flip(64, |row, bit| row.sequence ^= 1 << bit);
    rows
}

#[test]
fn c2_every_flipped_bit_is_found_and_its_row_is_named() {
    let large = vec![b'x'; 5_000];
    for body in [&b""[..], br#"{"words":["to","pleach"]}"#, &large] {
        let row = row("essay-7", 12, 3, body);
        assert_eq!(row.clone().open("essay-7").unwrap().body, body);
        for flipped in flipped(&row) {
            let sequence = flipped.sequence;
            let opened = flipped.open("essay-7");
            assert!(
                matches!(&opened, Err(StoreError::Damaged { run, sequence: named, .. }) if run == "essay-7" && *named == sequence),
                "{opened:?}"
            );
        }
        assert!(matches!(row.clone().open("essay-8"), Err(StoreError::Damaged { .. })), "a row of another run is damage");
        for cut in 0..row.body.len().min(40) {
            let cut = Row { body: row.body[..cut].to_vec(), ..row.clone() };
            assert!(matches!(cut.open("essay-7"), Err(StoreError::Damaged { sequence: 12, .. })));
        }
    }
}

#[test]
fn c2_every_flipped_bit_of_a_message_is_found() {
    let post = NewMessage::seal("r", "answer", Some("once".into()), b"{\"yes\":true}".to_vec());
    for bit in 0..post.payload.len() * 8 {
        let mut post = post.clone();
        post.payload[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(post.open("r"), Err(StoreError::Damaged { sequence: 0, .. })));
    }
    let other = NewMessage { name: "answes".into(), ..post.clone() };
    assert!(matches!(other.open("r"), Err(StoreError::Damaged { .. })));
    let other = NewMessage { dedup: None, ..post.clone() };
    assert!(matches!(other.open("r"), Err(StoreError::Damaged { .. })));
    assert!(matches!(post.open("s"), Err(StoreError::Damaged { .. })));
}

#[test]
fn c1_header_is_readable_text_and_needs_no_body() {
    let row = row("r", 2, 1, b"{}");
    let text = std::str::from_utf8(&row.header).unwrap();
    assert!(text.starts_with(r#"{"format":2,"graph":"essay","#) && text.contains(r#""kind":"step""#), "{text}");
    let bare = Row { body: vec![], ..row };
    assert_eq!(bare.open_header("r").unwrap(), header(2, 1));
}

#[test]
fn c7_record_of_a_later_format_is_rejected_with_both_versions() {
    let now = row("r", 2, 1, b"{}");
    let later = String::from_utf8(now.header).unwrap().replacen(r#""format":2"#, r#""format":9,"new":[]"#, 1).into_bytes();
    // The checksum of a row covers its parts, each after its length.
    let mut sum = crc32fast::Hasher::new();
    for part in [b"r".as_slice(), &2_u64.to_le_bytes(), &later] {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    let rejected = Row { sequence: 2, header: later, body: now.body, sum: sum.finalize() }.open("r").unwrap_err();
    assert!(matches!(rejected, StoreError::NewerFormat { format: 9, known: 2, .. }), "{rejected}");
}

#[test]
fn c10_body_above_the_limit_is_rejected_with_both_sizes() {
    assert!(Row::seal("r", 1, &header(1, 1), vec![b'1'; 10], 10).is_ok());
    let rejected = Row::seal("r", 1, &header(1, 1), vec![b'1'; 11], 10).unwrap_err();
    assert!(matches!(rejected, StoreError::TooLarge { limit: 10, size: 11, .. }), "{rejected}");
    assert_eq!(BODY_BYTES_MAX, 16 << 20);
}

#[cfg(feature = "zstd")]
#[test]
fn c1_large_bodies_are_compressed_and_read_back() {
    let words = b"to pleach ".repeat(2_000);
    let sealed = row("r", 2, 1, &words);
    assert!(sealed.body.len() < words.len() / 10);
    assert_eq!(sealed.open("r").unwrap().body, words);
    let small = row("r", 2, 1, &[b'x'; 4_096]);
    assert_eq!(small.body.len(), 4_096, "small bodies are not compressed");
}
