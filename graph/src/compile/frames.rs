//! Assigns each node to a fan-out: one pass over the edges from the entry, linear in nodes and
//! edges.
//!
//! A *frame* is the inside of one fan-out; the root frame is the whole run. The rules:
//! 1. The entry is in the root frame.
//! 2. A fork creates a new frame for its heads. Its join is in the frame of the fork.
//! 3. An edge to the join of the same frame is an arrival and assigns nothing.
//! 4. A node that would be in two frames is a fault: an edge enters or leaves a branch without
//!    going through the join.

use crate::compile::fault::GraphFault;
use crate::define::shape::{OutEdgeShape, Shape, Target};

/// The inside of a fan-out. Index 0 is the whole run.
pub(crate) struct Frame {
    /// The frame around the fan-out. The root is its own parent.
    parent: usize,
    /// The node where the fan-out starts.
    fork: u32,
    join: Target,
}

/// The frame of each reachable node, as an index into `frames`.
pub(crate) struct Frames {
    pub(crate) of: Vec<Option<usize>>,
    frames: Vec<Frame>,
}

impl Frames {
    /// Returns the start of the innermost fan-out around `node`. `None` in the root frame and for
    /// unreachable nodes.
    pub(crate) fn fan_out(&self, node: u32) -> Option<u32> {
        self.of[node as usize].filter(|frame| *frame != 0).map(|frame| self.frames[frame].fork)
    }

    /// Assigns all reachable nodes, and reports edges that cross a frame.
    pub(crate) fn label(shape: &Shape, faults: &mut Vec<GraphFault>) -> Self {
        let root = Frame { parent: 0, fork: shape.entry, join: Target::End };
        let mut labelling = Labelling {
            shape,
            faults,
            result: Self { of: vec![None; shape.ids.len()], frames: vec![root] },
            to_visit: vec![shape.entry],
        };
        labelling.result.of[shape.entry as usize] = Some(0);
        while let Some(node) = labelling.to_visit.pop() {
            labelling.leave(node);
        }
        labelling.result
    }
}

struct Labelling<'a> {
    shape: &'a Shape,
    faults: &'a mut Vec<GraphFault>,
    result: Frames,
    to_visit: Vec<u32>,
}

impl Labelling<'_> {
    fn leave(&mut self, node: u32) {
        let shape = self.shape;
        let frame = self.result.of[node as usize].unwrap_or(0);
        match &shape.exits[node as usize] {
            OutEdgeShape::None | OutEdgeShape::Faulty => {}
            OutEdgeShape::Plain(to) => self.go(node, *to, frame),
            OutEdgeShape::Choice(targets) => targets.iter().for_each(|to| self.go(node, *to, frame)),
            OutEdgeShape::Fork { heads, join, .. } => self.fork(node, heads, *join, frame),
        }
        if let Some(to) = shape.fallbacks[node as usize] {
            self.go(node, to, frame);
        }
    }

    fn go(&mut self, node: u32, to: Target, frame: usize) {
        if to == self.result.frames[frame].join {
            return;
        }
        let Target::Node(next) = to else { return self.escapes(node, to, frame) };
        match self.result.of[next as usize] {
            None => self.place(next, frame),
            Some(known) if known == frame => {}
            Some(known) if self.encloses(known, frame) => self.escapes(node, to, frame),
            Some(_) => self.faults.push(GraphFault::CrossesBranch { node: self.shape.id(node), to: self.shape.name(to) }),
        }
    }

    fn fork(&mut self, node: u32, heads: &[Target], join: Target, frame: usize) {
        let inside = self.result.frames.len();
        self.result.frames.push(Frame { parent: frame, fork: node, join });
        for head in heads {
            if *head == join {
                let (fan_out, join) = (self.shape.id(node), self.shape.name(join));
                self.faults.push(GraphFault::EmptyBranch { fan_out, join });
            } else {
                self.go(node, *head, inside);
            }
        }
        if join == self.result.frames[frame].join {
            return;
        }
        let known = match join {
            Target::Node(next) => self.result.of[next as usize],
            Target::End => Some(0),
        };
        match (known, join) {
            (None, Target::Node(next)) => self.place(next, frame),
            (Some(known), _) if known == frame => {}
            _ => self.faults.push(GraphFault::JoinsCross { fan_out: self.shape.id(node), join: self.shape.name(join) }),
        }
    }

    fn place(&mut self, node: u32, frame: usize) {
        self.result.of[node as usize] = Some(frame);
        self.to_visit.push(node);
    }

    fn encloses(&self, outer: usize, mut inner: usize) -> bool {
        while inner != 0 {
            inner = self.result.frames[inner].parent;
            if inner == outer {
                return true;
            }
        }
        false
    }

    fn escapes(&mut self, node: u32, to: Target, frame: usize) {
        let Frame { fork, join, .. } = self.result.frames[frame];
        let (node, to) = (self.shape.id(node), self.shape.name(to));
        let (fan_out, join) = (self.shape.id(fork), self.shape.name(join));
        self.faults.push(GraphFault::BranchEscapes { node, to, fan_out, join });
    }
}
