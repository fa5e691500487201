//! Stored rows and inbox messages: damage is an error, and what opens can be sealed again.

use crate::random::Random;
use pleach::store::{BODY_BYTES_MAX, NewMessage, Row};

/// The run that all rows here belong to.
const RUN: &str = "r";

/// A header as it is stored, as a beginning for mutations.
const HEADER: &str = r#"{"format":2,"graph":"g","fingerprint":"f","epoch":1,"kind":"step","parent":1,"path":[[1,0]],"node":"a",
"next":{"node":"b"},"attempt":1,"visits":1,"at":1,"frontier":[{"id":[1,0],"at":{"node":"b"},"row":1}],"body":{"sum":0}}"#;

/// A row whose checksums fit, whatever it contains: it opens, or it is an error.
pub fn row(random: &mut Random) {
    let mut body = random.bytes(64);
    let mut header = HEADER.as_bytes().to_vec();
    if random.one_in(8) {
        header = random.bytes(200);
    } else {
        let sum = crc32fast::hash(&body);
        header = String::from_utf8_lossy(&header).replace("\"sum\":0", &format!("\"sum\":{sum}")).into_bytes();
        if random.one_in(4) {
            let size = random.next() >> random.below(64);
            header = String::from_utf8_lossy(&header).replace("}}", &format!(",\"zstd\":{size}}}}}")).into_bytes();
        } else {
            random.mutate(&mut header);
        }
    }
    if random.one_in(16) {
        random.mutate(&mut body);
    }
    let row = sealed(RUN, random.next() >> random.below(64), header, body);
    let (sequence, header) = (row.sequence, row.open_header(RUN));
    let Ok(record) = row.open(RUN) else { return };
    assert_eq!(header.as_ref().ok(), Some(&record.header));
    let again = Row::seal(RUN, sequence, &record.header, record.body.clone(), BODY_BYTES_MAX);
    let again = again.and_then(|row| row.open(RUN)).expect("what opens can be sealed and opened");
    assert_eq!((again.header, again.body), (record.header, record.body));
}

/// A message opens as it was sealed, and not after a change.
pub fn message(random: &mut Random) {
    let dedup = random.one_in(2).then(|| random.text(16));
    let (name, payload) = (random.text(24), random.bytes(64));
    let post = NewMessage::seal(RUN, name, dedup, payload.clone());
    assert_eq!(post.clone().open(RUN).ok(), Some(payload));
    let _ = post.kind();
    let mut changed = post.clone();
    random.mutate(&mut changed.payload);
    if changed != post {
        assert!(changed.open(RUN).is_err(), "a changed message opened");
    }
}

/// Returns a row whose checksum fits its header. The checksum covers each part and its length.
pub fn sealed(run: &str, sequence: u64, header: Vec<u8>, body: Vec<u8>) -> Row {
    let mut sum = crc32fast::Hasher::new();
    for part in [run.as_bytes(), &sequence.to_le_bytes(), &header] {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    Row { sequence, header, body, sum: sum.finalize() }
}
