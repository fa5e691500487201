//! Makes a failing set small: delta debugging with bounded effort.

/// Returns a subset of `all` that still fails, and the number of runs it took.
///
/// Before each run it asks `may_run`, with the number of runs so far. Unless that ended the search,
/// each element of the subset is needed: without it, the rest does not fail. `fails` must be true
/// for `all`, which is not run again.
pub(super) fn shrink<T: Clone>(
    all: Vec<T>,
    may_run: impl Fn(usize) -> bool,
    mut fails: impl FnMut(&[T]) -> bool,
) -> (Vec<T>, usize) {
    let mut runs = 0;
    let mut try_set = |set: &[T]| {
        if !may_run(runs) {
            return false;
        }
        runs += 1;
        fails(set)
    };
    if !all.is_empty() && try_set(&[]) {
        return (Vec::new(), runs);
    }
    let (mut needed, mut parts) = (all, 2);
    while needed.len() > 1 {
        let size = needed.len().div_ceil(parts);
        match smaller(&needed, size, &mut try_set) {
            // A part alone fails: divide it.
            Some((part, true)) => (needed, parts) = (part, 2),
            Some((rest, false)) => (needed, parts) = (rest, parts.saturating_sub(1).max(2)),
            None if size == 1 => break,
            None => parts = (parts * 2).min(needed.len()),
        }
    }
    (needed, runs)
}

/// Returns the first part of `size` elements that fails alone, with `true`, or else the first rest
/// without such a part that fails.
fn smaller<T: Clone>(all: &[T], size: usize, mut fails: impl FnMut(&[T]) -> bool) -> Option<(Vec<T>, bool)> {
    if size < all.len()
        && let Some(part) = all.chunks(size).find(|part| fails(part))
    {
        return Some((part.to_vec(), true));
    }
    for begin in (0..all.len()).step_by(size) {
        let end = (begin + size).min(all.len());
        let rest = [&all[..begin], &all[end..]].concat();
        // With two parts, the rest is the other part, which was tried.
        if rest.len() > size && fails(&rest) {
            return Some((rest, false));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d5_shrinking_leaves_what_is_needed() {
        let all: Vec<u32> = (0..40).collect();
        let needs = |wanted: &'static [u32]| move |set: &[u32]| wanted.iter().all(|one| set.contains(one));
        for wanted in [&[][..], &[7], &[0, 39], &[3, 4, 5], &[1, 11, 21, 31]] {
            let (needed, runs) = shrink(all.clone(), |runs| runs < 1_000, needs(wanted));
            assert_eq!(needed, wanted);
            assert!(runs < 200, "{runs} runs for {wanted:?}");
        }
        assert_eq!(shrink(vec![5, 6], |_| true, needs(&[5, 6])).0, [5, 6]);
        assert_eq!(shrink(vec![5, 6], |_| true, needs(&[6])).0, [6]);
    }

    #[test]
    fn d5_shrinking_is_bounded() {
        let mut tried = 0;
        let (needed, runs) = shrink(
            (0..1_000).collect(),
            |runs| runs < 10,
            |set: &[u32]| {
                tried += 1;
                set.len() == 1_000
            },
        );
        assert_eq!((needed.len(), runs, tried), (1_000, 10, 10));
    }
}
