//! A brute-force explorer of tokens, slow and simple, that must agree with the real checks on
//! random graphs.

use crate::compile::frames::Frames;
use crate::compile::reach;
use crate::define::shape::{OutEdgeShape, Shape, Target};
use pleach_core::Random;
use std::collections::{HashMap, HashSet};

/// Returns whether every possible token behaves: it leaves a fan-out only through its join, no node
/// is entered in two different fan-outs, and from every node the end of its fan-out can be reached
/// without fallbacks.
fn is_sound(shape: &Shape) -> bool {
    let mut stack_of: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut tokens = vec![(shape.entry, Vec::new())];
    while let Some((node, stack)) = tokens.pop() {
        match stack_of.get(&node) {
            Some(known) if *known == stack => continue,
            Some(_) => return false,
            None => stack_of.insert(node, stack.clone()),
        };
        let mut goals: Vec<(Target, Vec<u32>)> = Vec::new();
        match &shape.exits[node as usize] {
            OutEdgeShape::None | OutEdgeShape::Faulty => return false,
            OutEdgeShape::Plain(to) => goals.push((*to, stack.clone())),
            OutEdgeShape::Choice(targets) => goals.extend(targets.iter().map(|to| (*to, stack.clone()))),
            OutEdgeShape::Fork { heads, join, .. } => {
                let inside: Vec<u32> = stack.iter().copied().chain([node]).collect();
                for head in heads {
                    if head == join {
                        return false;
                    }
                    goals.push((*head, inside.clone()));
                }
                goals.push((*join, stack.clone()));
            }
        }
        goals.extend(shape.fallbacks[node as usize].map(|to| (to, stack.clone())));
        for (to, stack) in goals {
            match to {
                to if to == join_of(shape, &stack) => {}
                Target::End => return false,
                Target::Node(next) => tokens.push((next, stack)),
            }
        }
    }
    stack_of.iter().all(|(node, stack)| can_end(shape, *node, join_of(shape, stack)))
}

fn join_of(shape: &Shape, stack: &[u32]) -> Target {
    match stack.last().map(|fork| &shape.exits[*fork as usize]) {
        Some(OutEdgeShape::Fork { join, .. }) => *join,
        _ => Target::End,
    }
}

/// Returns whether a token at `node` can reach `goal`, passing fan-outs from fork to join.
fn can_end(shape: &Shape, node: u32, goal: Target) -> bool {
    let mut seen = HashSet::from([node]);
    let mut to_visit = vec![node];
    while let Some(node) = to_visit.pop() {
        let targets = match &shape.exits[node as usize] {
            OutEdgeShape::None | OutEdgeShape::Faulty => Vec::new(),
            OutEdgeShape::Plain(to) | OutEdgeShape::Fork { join: to, .. } => vec![*to],
            OutEdgeShape::Choice(targets) => targets.clone(),
        };
        for to in targets {
            match to {
                to if to == goal => return true,
                Target::Node(next) if seen.insert(next) => to_visit.push(next),
                _ => {}
            }
        }
    }
    false
}

/// Creates a small random graph. The edges of a `wild` graph lead anywhere.
pub(crate) fn random_shape(random: &mut Random, wild: bool) -> Shape {
    let count = 1 + random.below(8) as u32;
    let mut exits = Vec::new();
    for node in 0..count {
        // Other edges lead a short way forward, and joins a little further: many of these graphs
        // are sound.
        let towards = |random: &mut Random, least: u32| {
            let strays = wild || random.below(12) == 0;
            match if strays { random.below(count as usize + 1) as u32 } else { node + least + random.below(2) as u32 } {
                next if next >= count => Target::End,
                next => Target::Node(next),
            }
        };
        let some = |random: &mut Random| unique((0..1 + random.below(3)).map(|_| towards(random, 1)).collect());
        exits.push(match random.below(24) {
            0 => OutEdgeShape::None,
            1..=10 => OutEdgeShape::Plain(towards(random, 1)),
            11..=15 => OutEdgeShape::Choice(some(random)),
            16..=18 => OutEdgeShape::Fork { heads: vec![towards(random, 1)], join: towards(random, 2), is_map: true },
            _ => OutEdgeShape::Fork { heads: some(random), join: towards(random, 3), is_map: false },
        });
    }
    let mut fallback = |node: u32| match random.below(12) {
        0 => Some(Target::End),
        1 if node + 1 < count => Some(Target::Node(node + 1)),
        _ => None,
    };
    let fallbacks = (0..count).map(&mut fallback).collect();
    let ids = (0..count).map(|node| format!("n{node}").into()).collect();
    Shape { ids, exits, fallbacks, entry: 0 }
}

fn unique(mut targets: Vec<Target>) -> Vec<Target> {
    let mut seen = HashSet::new();
    targets.retain(|target| seen.insert(*target));
    targets
}

#[test]
fn f1_compile_agrees_with_a_brute_force_explorer_on_random_graphs() {
    let mut random = Random::seeded(1);
    let mut sound = 0;
    let mut forked = 0;
    for round in 0..100_000 {
        let shape = random_shape(&mut random, round % 4 == 0);
        let mut faults = Vec::new();
        let frames = Frames::label(&shape, &mut faults);
        reach::check(&shape, &frames, &mut faults);
        let is_sound = is_sound(&shape);
        assert_eq!(faults.is_empty(), is_sound, "{shape:?}\n{faults:?}");
        sound += u32::from(is_sound);
        forked += u32::from(is_sound && (0..shape.ids.len() as u32).any(|node| frames.fan_out(node).is_some()));
    }
    // Both answers occurred often, also for graphs with fan-outs.
    assert!(sound > 10_000 && sound < 90_000 && forked > 2_000, "{sound} sound, {forked} of them with branches");
}
