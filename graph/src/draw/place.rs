//! The horizontal place of every point, for a given order of each layer.

/// The passes over all layers, down and up in turn. Each brings points closer to their neighbours.
const PASSES: usize = 16;

/// Returns the centre of each point.
///
/// Within a layer, neighbouring points keep at least half of both widths and `gap` between their
/// centres. Each pass moves a layer as close as possible to the mean centre of the points that it
/// is connected with; see [`closest`].
pub(super) fn centres(layers: &[Vec<u32>], widths: &[f64], gap: f64, above: &[Vec<u32>], below: &[Vec<u32>]) -> Vec<f64> {
    let mut centre = vec![0.0; widths.len()];
    for layer in layers {
        let mut right = 0.0;
        for &point in layer {
            let width = widths[point as usize];
            centre[point as usize] = right + width / 2.0;
            right += width + gap;
        }
    }
    for pass in 0..PASSES {
        // The last passes use both sides, so that neither end of an edge decides alone.
        let both = pass + 4 >= PASSES;
        for at in 0..layers.len() {
            let (at, near) = if pass % 2 == 0 { (at, above) } else { (layers.len() - 1 - at, below) };
            let layer = &layers[at];
            let wanted = |point: u32| {
                let (mut sum, mut count) = (0.0, 0.0);
                let other = if std::ptr::eq(near, above) { below } else { above };
                for side in [Some(near), both.then_some(other)].into_iter().flatten() {
                    for other in &side[point as usize] {
                        sum += centre[*other as usize];
                        count += 1.0;
                    }
                }
                if count > 0.0 { (sum / count, count) } else { (centre[point as usize], 0.1) }
            };
            let wanted: Vec<(f64, f64)> = layer.iter().map(|point| wanted(*point)).collect();
            let apart = layer.windows(2).map(|pair| (widths[pair[0] as usize] + widths[pair[1] as usize]) / 2.0 + gap);
            for (point, found) in layer.iter().zip(closest(&wanted, apart)) {
                centre[*point as usize] = found;
            }
        }
    }
    let left = centre.iter().zip(widths).map(|(centre, width)| centre - width / 2.0).fold(f64::INFINITY, f64::min);
    centre.iter_mut().for_each(|centre| *centre -= left);
    centre
}

/// Returns the numbers that are nearest to the wanted ones, by the weighted sum of squares, such
/// that each is at least `apart` greater than the one before.
///
/// Minus the sums of `apart`, the numbers must not decrease. Then neighbours that decrease are
/// replaced by their common mean, until none does. Cost: linear.
fn closest(wanted: &[(f64, f64)], apart: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut offsets = vec![0.0];
    for distance in apart {
        offsets.push(offsets[offsets.len() - 1] + distance);
    }
    // Blocks of points that share one mean: mean, weight, number of points.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(wanted.len());
    for ((wanted, weight), offset) in wanted.iter().zip(&offsets) {
        let mut block = (wanted - offset, *weight, 1);
        while let Some(before) = blocks.last().filter(|before| before.0 > block.0) {
            let weight = before.1 + block.1;
            block = ((before.0 * before.1 + block.0 * block.1) / weight, weight, before.2 + block.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    let means = blocks.into_iter().flat_map(|(mean, _, count)| std::iter::repeat_n(mean, count));
    means.zip(offsets).map(|(mean, offset)| mean + offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f3_points_keep_their_distance_and_stay_near() {
        let found = closest(&[(5.0, 1.0), (5.0, 1.0), (20.0, 1.0)], [4.0, 4.0].into_iter());
        assert_eq!(found, [3.0, 7.0, 20.0]);
    }

    #[test]
    fn f3_parent_is_centred_above_its_branches() {
        let layers = [vec![0], vec![1, 2, 3], vec![4]];
        let below = vec![vec![1, 2, 3], vec![4], vec![4], vec![4], vec![]];
        let above = vec![vec![], vec![0], vec![0], vec![0], vec![1, 2, 3]];
        let centre = centres(&layers, &[10.0; 5], 2.0, &above, &below);
        assert!((centre[0] - centre[2]).abs() < 0.5 && (centre[4] - centre[2]).abs() < 0.5, "{centre:?}");
        assert!(centre[2] - centre[1] >= 11.9 && centre[3] - centre[2] >= 11.9, "{centre:?}");
    }
}
