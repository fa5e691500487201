//! Compiles and runs the programs of the README and of the book (`docs/book`) as doc tests.
//!
//! Each chapter is the documentation of one hidden type. A chapter that needs Cargo features is
//! skipped without them, so run the doc tests with `--all-features`.

/// Declares a type whose documentation is a Markdown file.
macro_rules! chapter {
    ($name:ident, $file:literal $(, feature = $feature:literal)*) => {
        $(#[cfg(feature = $feature)])*
        #[doc = include_str!(concat!("../../", $file))]
        struct $name;
    };
}

chapter!(Readme, "README.md", feature = "sqlite");
chapter!(Introduction, "docs/book/src/introduction.md");
chapter!(FirstActor, "docs/book/src/first-actor.md", feature = "tokio");
chapter!(Supervision, "docs/book/src/supervision.md", feature = "tokio");
chapter!(ScopesAndGroups, "docs/book/src/scopes-and-groups.md", feature = "tokio");
chapter!(Graphs, "docs/book/src/graphs.md", feature = "graph");
chapter!(DurableRuns, "docs/book/src/durable-runs.md", feature = "sqlite");
chapter!(Workers, "docs/book/src/workers.md", feature = "postgres");
chapter!(Deploying, "docs/book/src/deploying.md", feature = "graph");
chapter!(Testing, "docs/book/src/testing.md", feature = "graph", feature = "macros");
chapter!(ErrorsAndShutdown, "docs/book/src/errors-and-shutdown.md", feature = "tokio");
chapter!(Observing, "docs/book/src/observing.md", feature = "tokio");
chapter!(Telemetry, "docs/book/src/telemetry.md", feature = "tokio");
chapter!(Recipes, "docs/book/src/recipes.md", feature = "graph");
chapter!(FromRactor, "docs/book/src/from-ractor.md", feature = "tokio");
chapter!(FromKameo, "docs/book/src/from-kameo.md", feature = "tokio");
chapter!(FromLangGraph, "docs/book/src/from-langgraph.md", feature = "sqlite");
chapter!(FromTemporal, "docs/book/src/from-temporal.md", feature = "sqlite");
