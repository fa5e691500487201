//! Paths and names: what parses is written back the same.

use crate::random::Random;
use pleach::actor::{ActorPath, NAME_LEN_MAX, Name};

/// Paths that parse, as a beginning for mutations.
const PATHS: [&str; 6] = ["/", "/user", "/user/workers/3", "/user/$42", "//node-7/user/a", "/user/a name 多"];

/// A path that parses is equal to the path that its text parses to.
pub fn path(random: &mut Random) {
    let text = if random.one_in(3) {
        random.text(64)
    } else {
        let mut bytes = PATHS[random.below(PATHS.len())].as_bytes().to_vec();
        random.mutate(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    match text.parse::<ActorPath>() {
        Ok(path) => {
            let written = path.to_string();
            assert_eq!(written.parse::<ActorPath>().as_ref(), Ok(&path), "{text:?} is written as {written:?}");
            assert_eq!(path.segments().len(), path.segments().iter().filter(|name| !name.to_string().is_empty()).count());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A name that is accepted is kept as it is, and is a step of a path.
pub fn name(random: &mut Random) {
    let len_max = if random.one_in(8) { 2 * NAME_LEN_MAX } else { 24 };
    let text = random.text(len_max);
    match Name::new(&text) {
        Ok(name) => {
            assert_eq!(name.to_string(), text);
            let path = ActorPath::root().push_child(name);
            assert_eq!(path.to_string().parse(), Ok(path), "{text:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
