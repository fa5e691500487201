//! Which layer each node is in: first the edges are made acyclic, then ranked from top to bottom.

/// The nodes of a drawing by number, and its edges from top to bottom.
pub(super) struct Layered {
    /// The layer of each node, from 0.
    pub(super) layer: Vec<u32>,
    /// The edges between different nodes, as `(upper, lower, edge)`. Edges that go back up are
    /// turned round. `edge` is the index of the edge in the input.
    pub(super) downward: Vec<(u32, u32, u32)>,
    /// Whether each edge of the input was turned round.
    pub(super) turned: Vec<bool>,
}

/// Puts nodes into layers so that every edge goes down, except edges that close a cycle.
///
/// The nodes are visited from `first`, so a loop in a graph goes back up. Cost: linear in nodes and
/// edges.
pub(super) fn assign(nodes: usize, edges: &[(u32, u32)], first: u32) -> Layered {
    let turned = back_edges(nodes, edges, first);
    let mut downward = Vec::with_capacity(edges.len());
    for (index, &(from, to)) in edges.iter().enumerate() {
        if from != to {
            let (upper, lower) = if turned[index] { (to, from) } else { (from, to) };
            downward.push((upper, lower, index as u32));
        }
    }
    let order = topological(nodes, &downward);
    let mut layer = vec![0u32; nodes];
    let (below, above) = (adjacent(nodes, downward.iter().map(|edge| (edge.0, edge.1))), incoming(nodes, &downward));
    for &node in &order {
        for &next in &below[node as usize] {
            layer[next as usize] = layer[next as usize].max(layer[node as usize] + 1);
        }
    }
    // A node that only leads to lower layers moves down to them: its edges become shorter.
    for &node in order.iter().rev().filter(|node| **node != first) {
        let (into, out) = (above[node as usize], &below[node as usize]);
        if into < out.len() as u32
            && let Some(lowest) = out.iter().map(|next| layer[*next as usize] - 1).min()
        {
            layer[node as usize] = layer[node as usize].max(lowest);
        }
    }
    Layered { layer, downward, turned }
}

/// Marks the edges that lead back to a node on the current path of a depth-first walk.
fn back_edges(nodes: usize, edges: &[(u32, u32)], first: u32) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Done,
    }
    let mut from: Vec<Vec<(u32, u32)>> = vec![Vec::new(); nodes];
    for (index, edge) in edges.iter().enumerate() {
        from[edge.0 as usize].push((edge.1, index as u32));
    }
    let (mut seen, mut turned) = (vec![Seen::No; nodes], vec![false; edges.len()]);
    for start in std::iter::once(first).chain(0..nodes as u32).filter(|start| (*start as usize) < nodes) {
        if seen[start as usize] != Seen::No {
            continue;
        }
        seen[start as usize] = Seen::OnPath;
        let mut path = vec![(start, 0usize)];
        while let Some((node, next)) = path.last_mut() {
            let Some(&(to, edge)) = from[*node as usize].get(*next) else {
                seen[*node as usize] = Seen::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match seen[to as usize] {
                Seen::OnPath => turned[edge as usize] = to != *node,
                Seen::Done => {}
                Seen::No => {
                    seen[to as usize] = Seen::OnPath;
                    path.push((to, 0));
                }
            }
        }
    }
    turned
}

/// Returns the nodes so that every edge leads to a later one. The edges have no cycle.
fn topological(nodes: usize, downward: &[(u32, u32, u32)]) -> Vec<u32> {
    let (below, mut waiting) = (adjacent(nodes, downward.iter().map(|edge| (edge.0, edge.1))), incoming(nodes, downward));
    let mut order: Vec<u32> = (0..nodes as u32).filter(|node| waiting[*node as usize] == 0).collect();
    let mut at = 0;
    while let Some(&node) = order.get(at) {
        at += 1;
        for &next in &below[node as usize] {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                order.push(next);
            }
        }
    }
    order
}

fn incoming(nodes: usize, downward: &[(u32, u32, u32)]) -> Vec<u32> {
    let mut count = vec![0; nodes];
    downward.iter().for_each(|edge| count[edge.1 as usize] += 1);
    count
}

/// Returns the targets of each node.
pub(super) fn adjacent(nodes: usize, edges: impl Iterator<Item = (u32, u32)>) -> Vec<Vec<u32>> {
    let mut targets = vec![Vec::new(); nodes];
    edges.for_each(|(from, to)| targets[from as usize].push(to));
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f3_edges_go_down_and_loops_go_back_up() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3, 0 -> 3, 3 -> 3
        let edges = [(0, 1), (1, 2), (2, 1), (2, 3), (0, 3), (3, 3)];
        let Layered { layer, downward, turned } = assign(4, &edges, 0);
        assert_eq!(layer, [0, 1, 2, 3]);
        assert_eq!(turned, [false, false, true, false, false, false]);
        assert!(downward.iter().all(|(upper, lower, _)| layer[*upper as usize] < layer[*lower as usize]));
        assert_eq!(downward.len(), 5, "an edge from a node to itself has no direction");
    }

    #[test]
    fn f3_random_graphs_have_only_downward_edges() {
        let mut random = 1u64;
        for _ in 0..200 {
            let mut next = |limit: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % limit
            };
            let nodes = 1 + next(12);
            let edges: Vec<_> = (0..next(30)).map(|_| (next(nodes) as u32, next(nodes) as u32)).collect();
            let layered = assign(nodes as usize, &edges, 0);
            for (upper, lower, edge) in layered.downward {
                assert!(layered.layer[upper as usize] < layered.layer[lower as usize], "{edges:?} edge {edge}");
            }
        }
    }
}
