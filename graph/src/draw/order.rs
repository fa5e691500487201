//! The order of the nodes within each layer: as few crossings as a few sweeps find.

/// The sweeps over all layers, down and up in turn.
const SWEEPS: usize = 12;

/// The layers of a drawing, each a list of points in order. A point is a node, or the place where a
/// long edge passes a layer.
pub(super) struct Ordered {
    pub(super) layers: Vec<Vec<u32>>,
}

/// Orders `layers` so that the edges between neighbouring layers cross seldom.
///
/// Each sweep sorts a layer by the mean position of the neighbours in the layer before. The order
/// with the fewest crossings is kept. Cost: `SWEEPS` times `E log E`.
pub(super) fn reduce_crossings(mut layers: Vec<Vec<u32>>, above: &[Vec<u32>], below: &[Vec<u32>]) -> Ordered {
    let mut position = vec![0u32; above.len()];
    layers.iter().for_each(|layer| number(layer, &mut position));
    let mut best = (crossings(&layers, below, &position), layers.clone());
    for sweep in 0..SWEEPS {
        if best.0 == 0 {
            break;
        }
        let (neighbours, down) = if sweep % 2 == 0 { (above, true) } else { (below, false) };
        for at in 0..layers.len() {
            let at = if down { at } else { layers.len() - 1 - at };
            sort_layer(&mut layers[at], neighbours, &mut position);
        }
        let found = crossings(&layers, below, &position);
        if found < best.0 {
            best = (found, layers.clone());
        }
    }
    Ordered { layers: best.1 }
}

/// Sorts a layer by the mean position of its neighbours. A point without any keeps its place.
fn sort_layer(layer: &mut [u32], neighbours: &[Vec<u32>], position: &mut [u32]) {
    let mut keyed: Vec<(f64, u32)> = Vec::with_capacity(layer.len());
    for &point in layer.iter() {
        let near = &neighbours[point as usize];
        let sum: f64 = near.iter().map(|other| f64::from(position[*other as usize])).sum();
        let mean = if near.is_empty() { f64::from(position[point as usize]) } else { sum / near.len() as f64 };
        keyed.push((mean, point));
    }
    keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (place, (_, point)) in layer.iter_mut().zip(keyed) {
        *place = point;
    }
    number(layer, position);
}

fn number(layer: &[u32], position: &mut [u32]) {
    for (at, point) in layer.iter().enumerate() {
        position[*point as usize] = at as u32;
    }
}

/// Counts the pairs of edges between neighbouring layers that cross.
fn crossings(layers: &[Vec<u32>], below: &[Vec<u32>], position: &[u32]) -> u64 {
    let mut count = 0;
    for pair in layers.windows(2) {
        let mut targets = Vec::new();
        for &point in &pair[0] {
            let first = targets.len();
            targets.extend(below[point as usize].iter().map(|to| position[*to as usize]));
            targets[first..].sort_unstable();
        }
        count += inversions(&targets, pair[1].len());
    }
    count
}

/// Counts the pairs in which a later number is smaller, with a tree of partial sums.
fn inversions(numbers: &[u32], limit: usize) -> u64 {
    let mut sums = vec![0u64; limit + 1];
    let mut count = 0;
    for (seen, &number) in numbers.iter().enumerate() {
        let (mut at, mut not_greater) = (number as usize + 1, 0);
        while at > 0 {
            not_greater += sums[at];
            at &= at - 1;
        }
        count += seen as u64 - not_greater;
        let mut at = number as usize + 1;
        while at <= limit {
            sums[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f3_inversions_are_counted_as_by_comparing_all_pairs() {
        let numbers = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5];
        let pairs = (0..numbers.len()).flat_map(|one| (one + 1..numbers.len()).map(move |other| (one, other)));
        let plain = pairs.filter(|(one, other)| numbers[*one] > numbers[*other]).count() as u64;
        assert_eq!(inversions(&numbers, 10), plain);
    }

    #[test]
    fn f3_crossed_branches_are_untangled() {
        // 0 and 1 above 2 and 3; the edges cross in the given order.
        let (above, below) = (vec![vec![], vec![], vec![1], vec![0]], vec![vec![3], vec![2], vec![], vec![]]);
        let ordered = reduce_crossings(vec![vec![0, 1], vec![2, 3]], &above, &below);
        assert_eq!(ordered.layers, [vec![0, 1], vec![3, 2]]);
    }
}
