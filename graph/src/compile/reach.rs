//! Checks that every node can reach the end: finds unconditional cycles, then follows the edges
//! backwards from the end. Linear in nodes and edges.
//!
//! Fallback edges do not count: a node that only a failure leads out of has no path to the end. A
//! node whose problem another fault explains is not reported again, and neither are nodes that lead
//! only to it.

use crate::compile::fault::GraphFault;
use crate::compile::frames::Frames;
use crate::define::shape::{OutEdgeShape, Shape, Target};

/// Reports every reachable node without a path to the end.
pub(crate) fn check(shape: &Shape, frames: &Frames, faults: &mut Vec<GraphFault>) {
    let is_reached = |node: &u32| frames.of[*node as usize].is_some();
    let nodes = 0..shape.ids.len() as u32;
    let mut explained = vec![false; shape.ids.len()];
    for node in nodes.clone().filter(is_reached) {
        match shape.exits[node as usize] {
            OutEdgeShape::None => {
                faults.push(GraphFault::NoWayOut { node: shape.id(node) });
                explained[node as usize] = true;
            }
            OutEdgeShape::Faulty => explained[node as usize] = true,
            _ => {}
        }
    }
    for cycle in cycles(shape, frames) {
        cycle.iter().for_each(|node| explained[*node as usize] = true);
        faults.push(GraphFault::UnconditionalCycle { nodes: cycle.into_iter().map(|node| shape.id(node)).collect() });
    }
    let reaches_end = leading_to(shape, explained);
    for node in nodes.filter(is_reached).filter(|node| !reaches_end[*node as usize]) {
        faults.push(GraphFault::NoPathToEnd { node: shape.id(node) });
    }
}

/// Finds the cycles in which every node has a single successor. A node is on at most one of them.
fn cycles(shape: &Shape, frames: &Frames) -> Vec<Vec<u32>> {
    let mut walked_by = vec![None; shape.ids.len()];
    let mut cycles = Vec::new();
    for start in (0..shape.ids.len() as u32).filter(|node| frames.of[*node as usize].is_some()) {
        let mut at = start;
        let mut walked = Vec::new();
        while walked_by[at as usize].is_none() {
            walked_by[at as usize] = Some(start);
            walked.push(at);
            match shape.sole_successor(at) {
                Some(Target::Node(next)) => at = next,
                _ => break,
            }
        }
        // The walk came back to its own path by an edge: a cycle starts at that node.
        if walked_by[at as usize] == Some(start)
            && walked.last().and_then(|last| shape.sole_successor(*last)) == Some(Target::Node(at))
            && let Some(first) = walked.iter().position(|node| *node == at)
        {
            cycles.push(walked.split_off(first));
        }
    }
    cycles
}

/// Returns the nodes from which the end, or one of `goals`, can be reached.
fn leading_to(shape: &Shape, goals: Vec<bool>) -> Vec<bool> {
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); shape.ids.len()];
    let mut reaches = goals;
    let mut to_visit: Vec<u32> = (0..shape.ids.len() as u32).filter(|node| reaches[*node as usize]).collect();
    for node in 0..shape.ids.len() as u32 {
        for to in shape.successors(node) {
            match to {
                Target::Node(next) => before[next as usize].push(node),
                Target::End if !reaches[node as usize] => {
                    reaches[node as usize] = true;
                    to_visit.push(node);
                }
                Target::End => {}
            }
        }
    }
    while let Some(node) = to_visit.pop() {
        for earlier in &before[node as usize] {
            if !std::mem::replace(&mut reaches[*earlier as usize], true) {
                to_visit.push(*earlier);
            }
        }
    }
    reaches
}
