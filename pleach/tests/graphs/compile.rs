//! F1 to F3: the faults that `compile` reports, and what a compiled graph shows of itself.
use crate::add_one;
use pleach::graph::{CompileError, GraphFault, LeadsTo, NamedBy};
use pleach::prelude::*;
use std::time::Instant;

async fn same(state: u32) -> Result<u32, pleach::BoxError> {
    Ok(state)
}

fn first(before: u32, _branches: Vec<u32>) -> u32 {
    before
}

/// A graph of these nodes. The first one is the entry.
fn nodes(ids: &[&str]) -> Graph<u32> {
    let graph = ids.iter().fold(Graph::new("test"), |graph, id| graph.add_node(*id, same));
    match ids.first() {
        Some(first) => graph.set_entry(*first),
        None => graph,
    }
}

fn faults(graph: Graph<u32>) -> Vec<GraphFault> {
    graph.compile().expect_err("the graph has faults").faults
}

fn text(id: &str) -> String {
    id.to_string()
}

#[test]
fn f1_missing_and_unknown_entries_are_faults() {
    let graph = Graph::new("test").add_node("write", same).add_edge("write", END);
    assert_eq!(faults(graph), [GraphFault::NoEntry]);
    let graph = nodes(&["write"]).add_edge("write", END).set_entry("wriet");
    assert_eq!(faults(graph), [GraphFault::UnknownEntry { entry: text("wriet"), did_you_mean: Some(text("write")) }]);
}

#[test]
fn f1_unknown_node_names_are_faults() {
    let unknown = |node: &str, named_by, did_you_mean: Option<&str>| {
        let (node, did_you_mean) = (text(node), did_you_mean.map(text));
        vec![GraphFault::UnknownNode { node, named_by, did_you_mean }]
    };
    let graph = || nodes(&["write", "judge"]).add_edge("judge", END);
    assert_eq!(faults(graph().add_edge("write", "jugde")), unknown("jugde", NamedBy::EdgeOf(text("write")), Some("judge")));
    let complete = || graph().add_edge("write", "judge");
    assert_eq!(faults(complete().add_edge("publish", END)), unknown("publish", NamedBy::EdgeFrom, None));
    assert_eq!(faults(complete().policy("wite", Policy::new())), unknown("wite", NamedBy::Policy, Some("write")));
    let fallback = Policy::new().fallback("nowhere");
    assert_eq!(faults(complete().policy("write", fallback)), unknown("nowhere", NamedBy::FallbackOf(text("write")), None));
    let undo = |_: NodeContext, (): ()| async { Ok::<(), String>(()) };
    assert_eq!(faults(complete().compensate("jude", undo)), unknown("jude", NamedBy::Undo, Some("judge")));
    let joined = graph().add_parallel_edge("write", ["judge"], "joni", first);
    assert_eq!(faults(joined), unknown("joni", NamedBy::JoinOf(text("write")), None));
    // A conditional edge reports each of its unknown targets.
    let choice = graph().add_conditional_edge("write", ["judge", "x1", "x2"], |_: &u32| "judge");
    assert_eq!(faults(choice).len(), 2);
}

#[test]
fn f1_invalid_node_ids_are_faults() {
    let with = |id: &str| nodes(&["a"]).add_edge("a", END).add_node(id, same);
    assert_eq!(faults(with("a")), [GraphFault::DuplicateNode { node: text("a") }]);
    assert_eq!(faults(with(END)), [GraphFault::ReservedId { node: text(END) }]);
    assert_eq!(faults(with("a/b")), [GraphFault::ReservedId { node: text("a/b") }]);
    assert_eq!(faults(with("  ")), [GraphFault::BlankId]);
    assert_eq!(faults(with("")), [GraphFault::BlankId]);
    // Unusual characters are allowed.
    let odd = Graph::new("odd").add_node("schön \"1\"", same).add_edge("schön \"1\"", END).set_entry("schön \"1\"");
    assert!(odd.compile().is_ok());
}

#[test]
fn f1_nodes_without_a_path_to_the_end_are_faults() {
    let graph = nodes(&["a", "b"]).add_edge("a", "b");
    assert_eq!(faults(graph), [GraphFault::NoWayOut { node: text("b") }]);
    // A loop with a choice inside: every node has an edge, but none leads to the end.
    let graph = nodes(&["a", "b", "c"])
        .add_conditional_edge("a", ["b", END], |_: &u32| "b")
        .add_conditional_edge("b", ["c", "b"], |_: &u32| "c")
        .add_edge("c", "b");
    let trapped = |node: &str| GraphFault::NoPathToEnd { node: text(node) };
    assert_eq!(faults(graph), [trapped("b"), trapped("c")]);
    // A fallback does not count as a path to the end, since it needs a failure.
    let graph = nodes(&["a"]).add_conditional_edge("a", ["a"], |_: &u32| "a").policy("a", Policy::new().fallback(END));
    assert_eq!(faults(graph), [GraphFault::UnconditionalCycle { nodes: vec![text("a")] }]);
}

#[test]
fn f1_unconditional_cycle_replaces_no_path_to_end() {
    let graph = nodes(&["in", "a", "b"]).add_edge("in", "a").add_edge("a", "b").add_edge("b", "a");
    assert_eq!(faults(graph), [GraphFault::UnconditionalCycle { nodes: vec![text("a"), text("b")] }]);
    // Also through a fan-out: the join leads back to the fork.
    let graph = nodes(&["a", "b", "c"]).add_parallel_edge("a", ["b"], "c", first).add_edge("b", "c").add_edge("c", "a");
    assert_eq!(faults(graph), [GraphFault::UnconditionalCycle { nodes: vec![text("a"), text("c")] }]);
}

#[test]
fn f1_ambiguous_edges_are_faults() {
    let graph = nodes(&["a", "b"]).add_edge("a", "b").add_edge("a", END).add_edge("b", END);
    let targets = vec![text("b"), text(END)];
    assert_eq!(faults(graph), [GraphFault::SeveralEdges { node: text("a"), targets }]);
    let choice = |graph: Graph<u32>| graph.add_conditional_edge("a", [END], |_: &u32| END);
    let mixed = [GraphFault::MixedEdges { node: text("a") }];
    assert_eq!(faults(choice(nodes(&["a"]).add_edge("a", END))), mixed);
    assert_eq!(faults(choice(choice(nodes(&["a"])))), mixed);
    let none: [&str; 0] = [];
    let graph = nodes(&["a"]).add_conditional_edge("a", none, |_: &u32| END);
    assert_eq!(faults(graph), [GraphFault::NoTargets { node: text("a") }]);
}

#[test]
fn f1_fan_outs_that_do_not_join_are_faults() {
    let three = || nodes(&["fork", "left", "right", "join"]).add_edge("join", END);
    let forked = || three().add_parallel_edge("fork", ["left", "right"], "join", first).add_edge("right", "join");
    assert!(forked().add_edge("left", "join").compile().is_ok());
    let escapes =
        |to: &str| GraphFault::BranchEscapes { node: text("left"), to: text(to), fan_out: text("fork"), join: text("join") };
    assert_eq!(faults(forked().add_edge("left", END)), [escapes(END)]);
    // A branch that loops back to its own fork.
    let back = forked().add_conditional_edge("left", ["fork", "join"], |_: &u32| "join");
    assert_eq!(faults(back), [escapes("fork")]);

    let ends = three().add_parallel_edge("fork", ["left", END], "join", first).add_edge("left", "join");
    assert!(matches!(&faults(ends)[..], [GraphFault::BranchEscapes { node, to, .. }] if node == "fork" && to == END));

    let empty = three().add_parallel_edge("fork", ["left", "join"], "join", first).add_edge("left", "join");
    assert_eq!(faults(empty), [GraphFault::EmptyBranch { fan_out: text("fork"), join: text("join") }]);
    let twice = three().add_parallel_edge("fork", ["left", "left"], "join", first).add_edge("left", "join");
    assert_eq!(faults(twice), [GraphFault::DuplicateBranch { fan_out: text("fork"), branch: text("left") }]);
    let none: [&str; 0] = [];
    let graph = three().add_parallel_edge("fork", none, "join", first);
    assert_eq!(faults(graph), [GraphFault::NoBranches { fan_out: text("fork") }]);
    let limited = FanOut::merge(first).limit(0);
    let graph = three().add_parallel_edge("fork", ["left"], "join", limited).add_edge("left", "join");
    assert_eq!(faults(graph), [GraphFault::ZeroLimit { fan_out: text("fork") }]);
    // The end can be the join. Then a branch that reaches it does not escape.
    let graph = nodes(&["fork", "left"]).add_parallel_edge("fork", ["left"], END, first).add_edge("left", END);
    assert!(graph.compile().is_ok());
}

#[test]
fn f1_crossing_branches_are_faults() {
    // `inner` belongs to a branch of `outer`, but `start` leads directly into it.
    let graph = nodes(&["start", "outer", "inner", "join"])
        .add_conditional_edge("start", ["outer", "inner"], |_: &u32| "outer")
        .add_parallel_edge("outer", ["inner"], "join", first)
        .add_edge("inner", "join")
        .add_edge("join", END);
    let found = faults(graph);
    assert!(matches!(&found[..], [GraphFault::BranchEscapes { .. } | GraphFault::CrossesBranch { .. }, ..]), "{found:?}");
    // Two separate fan-outs whose branches meet.
    let graph = nodes(&["start", "f", "g", "a", "j", "k"])
        .add_conditional_edge("start", ["f", "g"], |_: &u32| "f")
        .add_parallel_edge("f", ["a"], "j", first)
        .add_parallel_edge("g", ["a"], "k", first)
        .add_conditional_edge("a", ["j", "k"], |_: &u32| "j")
        .add_edge("j", END)
        .add_edge("k", END);
    assert!(faults(graph).iter().any(|fault| matches!(fault, GraphFault::CrossesBranch { .. })));
    // A fan-out inside a branch that joins outside of it.
    let graph = nodes(&["f", "g", "a", "j", "k"])
        .add_parallel_edge("f", ["g"], "j", first)
        .add_edge("j", "k")
        .add_parallel_edge("g", ["a"], "k", first)
        .add_edge("a", "k")
        .add_edge("k", END);
    assert_eq!(faults(graph), [GraphFault::JoinsCross { fan_out: text("g"), join: text("k") }]);
}

#[test]
fn f1_undo_requires_a_node_with_a_context() {
    let undo = |_: NodeContext, (): ()| async { Ok::<(), String>(()) };
    let graph = nodes(&["a"]).add_edge("a", END).compensate("a", undo);
    assert_eq!(faults(graph), [GraphFault::UndoWithoutContext { node: text("a") }]);
}

#[test]
fn f1_unreachable_nodes_warn_and_can_be_denied() {
    let graph = || nodes(&["a", "b", "c"]).add_edge("a", END).add_edge("b", "c");
    let unreachable: Vec<GraphFault> = ["b", "c"].map(|node| GraphFault::Unreachable { node: text(node) }).into();
    assert_eq!(graph().compile().unwrap().warnings(), unreachable);
    assert_eq!(faults(graph().deny_warnings()), unreachable);
}

#[test]
fn f1_all_faults_are_reported_together_with_their_ids() {
    let graph = Graph::new("many")
        .add_node("a", same)
        .add_node("a", same)
        .add_node("", same)
        .add_node("b", same)
        .add_node("c", same)
        .add_edge("a", "b")
        .add_edge("a", "c")
        .add_edge("b", "d")
        .add_parallel_edge("c", ["c", "c"], "zz", FanOut::merge(first).limit(0))
        .set_entry("a");
    let error: CompileError = graph.compile().unwrap_err();
    let kinds: Vec<String> = error.faults.iter().map(|fault| format!("{fault:?}")).collect();
    let kinds: Vec<&str> = kinds.iter().filter_map(|kind| kind.split([' ', '{']).next()).collect();
    let expected = ["DuplicateNode", "BlankId", "SeveralEdges", "UnknownNode", "UnknownNode", "ZeroLimit", "DuplicateBranch"];
    assert_eq!(kinds, expected, "{error}");
    let report = error.to_string();
    assert!(report.contains("\"many\" has 7 faults") && report.contains("\"zz\"") && report.contains("\"d\""), "{report}");
}

#[test]
fn f1_compiles_ten_thousand_nodes_quickly() {
    let id = |n: usize| format!("node-{n}");
    let count = 10_000;
    let mut graph = Graph::new("large").set_entry(id(0));
    for n in 0..count {
        graph = graph.add_node(id(n), same);
        let next = |by: usize| if n + by < count { id(n + by) } else { END.to_string() };
        graph = graph.add_conditional_edge(id(n), [next(1), next(2), next(7)], |_: &u32| END);
    }
    let start = Instant::now();
    let graph = graph.compile().unwrap();
    let took = start.elapsed();
    assert_eq!(graph.inspect().nodes.len(), count);
    // Takes about 20 ms optimised. The bound allows for a busy machine and a debug build.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn f1_deeply_nested_fan_outs_compile_and_run() {
    let depth = 3_000;
    let mut graph = Graph::new("deep").set_entry("fork-0");
    for n in 0..depth {
        let (fork, join) = (format!("fork-{n}"), format!("join-{n}"));
        let head = if n + 1 == depth { "leaf".to_string() } else { format!("fork-{}", n + 1) };
        let outer = if n == 0 { END.to_string() } else { format!("join-{}", n - 1) };
        graph = graph.add_node(&*fork, same).add_node(&*join, same).add_edge(&*join, outer);
        graph = graph.add_parallel_edge(fork, [head], join, |_: u32, branches: Vec<u32>| branches[0]);
    }
    let graph = graph.add_node("leaf", add_one);
    let graph = graph.add_edge("leaf", format!("join-{}", depth - 1)).compile().unwrap();
    let state = pleach::runtime::block_on(async { graph.run(1).max_iterations(10_000).await }).unwrap();
    assert_eq!(state, 2);
}

fn essay() -> Graph<u32> {
    nodes(&["write", "judge", "left", "right", "sum", "rescue"])
        .add_edge("write", "judge")
        .add_conditional_edge("judge", ["write", "rescue", END], |_: &u32| END)
        .add_parallel_edge("rescue", ["left", "right"], "sum", first)
        .add_edge("left", "sum")
        .add_edge("right", "sum")
        .add_edge("sum", END)
        .policy("write", Policy::new().fallback("rescue"))
}

#[test]
fn f3_inspect_shows_nodes_edges_and_fallbacks() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let graph = essay().compile().unwrap();
    shared(&graph);
    let seen = graph.inspect();
    assert_eq!((seen.name.as_str(), seen.entry.as_str()), ("test", "write"));
    let node = |id: &str| seen.nodes.iter().find(|node| node.id == id).unwrap();
    assert_eq!(node("write").leads_to, LeadsTo::Next(text("judge")));
    assert_eq!(node("write").fallback.as_deref(), Some("rescue"));
    assert_eq!(node("judge").leads_to, LeadsTo::OneOf(vec![text("write"), text("rescue"), text(END)]));
    let (heads, join) = (vec![text("left"), text("right")], text("sum"));
    assert_eq!(node("rescue").leads_to, LeadsTo::AllOf { heads, join });
    assert_eq!((node("left").fan_out.as_deref(), node("sum").fan_out.as_deref()), (Some("rescue"), None));
}

#[test]
fn f3_fingerprint_is_stable_and_changes_with_the_structure() {
    let of = |graph: Graph<u32>| graph.compile().unwrap().fingerprint().to_string();
    let base = of(essay());
    // Never change this value: stored runs are compared by it.
    assert_eq!(base, "074a47f9ae0118999737e10a027568d7");
    assert_eq!(base, of(essay().policy("judge", Policy::new().timeout(Duration::from_secs(1)))));
    let shuffled = nodes(&["rescue", "sum", "right", "left", "judge", "write"])
        .add_edge("sum", END)
        .add_edge("right", "sum")
        .add_edge("left", "sum")
        .add_parallel_edge("rescue", ["left", "right"], "sum", first)
        .add_conditional_edge("judge", [END, "rescue", "write"], |_: &u32| END)
        .add_edge("write", "judge")
        .policy("write", Policy::new().fallback("rescue"))
        .set_entry("write");
    assert_eq!(base, of(shuffled));
    let changed = [
        essay().set_entry("judge"),
        essay().policy("judge", Policy::new().fallback("rescue")),
        essay().add_node("more", same).add_edge("more", END),
    ];
    for graph in changed {
        assert_ne!(base, of(graph));
    }
    let forked = |heads: [&'static str; 2]| {
        let graph = nodes(&["f", "a", "b"]).add_edge("a", END).add_edge("b", END);
        of(graph.add_parallel_edge("f", heads, END, first))
    };
    // The merge sees the branches in their declared order, so the order is part of the structure.
    assert_ne!(forked(["a", "b"]), forked(["b", "a"]));
    let mapped = nodes(&["f", "a", "b"]).add_edge("a", END).add_edge("b", END);
    assert_ne!(forked(["a", "b"]), of(mapped.map("f", |_| vec![], "a", END, first)));
}

#[test]
fn f3_graph_is_drawn_as_mermaid_and_dot() {
    let graph = nodes(&["say \"hi\"", "b"])
        .add_conditional_edge("say \"hi\"", ["b", END], |_: &u32| END)
        .map("b", |_| vec![], "c", END, first)
        .add_node("c", same)
        .add_edge("c", END)
        .compile()
        .unwrap();
    let mermaid = "flowchart TD\n    start([start])\n    finish([end])\n    n0[\"say #quot;hi#quot;\"]\n    n1[\"b\"]\n    n2[\"c\"]\n    \
                   start --> n0\n    n0 -.-> n1\n    n0 -.-> finish\n    n1 ==> n2\n    n1 -. join .-> finish\n    n2 --> finish\n";
    assert_eq!(graph.to_mermaid(), mermaid);
    let dot = graph.to_dot();
    assert!(dot.starts_with("digraph \"test\" {\n") && dot.ends_with("}\n"));
    for line in
        ["n0 [shape=box, label=\"say \\\"hi\\\"\"];", "start -> n0;", "n0 -> n1 [style=dashed];", "n1 -> n2 [style=bold];"]
    {
        assert!(dot.contains(line), "{line} is not in {dot}");
    }
}

#[test]
fn f3_svg_has_every_node_once_and_escapes_ids() {
    use pleach::graph::NodeMark;
    let graph = nodes(&["<script>\u{1b}", "b"])
        .add_edge("<script>\u{1b}", "b")
        .add_conditional_edge("b", ["<script>\u{1b}", END], |_: &u32| END)
        .compile()
        .unwrap();
    let plain = graph.to_svg();
    assert_eq!(plain, graph.to_svg(), "the same graph gives the same drawing");
    assert!(!plain.contains("<script>") && !plain.contains('\u{1b}'), "{plain}");
    assert_eq!(plain.matches("class=\"box\"").count(), 2, "{plain}");
    assert_eq!(plain.matches("<path class=\"line").count(), 4, "start, b, back, end: {plain}");
    let marked = graph.inspect().drawing().mark("b", NodeMark::Visited(3)).mark("no such node", NodeMark::Failed).to_svg();
    assert!(marked.contains("done 3 times") && !marked.contains("failed</text>"), "{marked}");
}
