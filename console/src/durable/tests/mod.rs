//! Tests of the source of durable runs: on memory, SQLite and PostgreSQL, with real graphs that
//! real workers drive.
//!
//! | file | tests |
//! |---|---|
//! | `fixture`, `graphs`, `probe` | what all tests use: stores, graphs, a store that counts, fails and hangs |
//! | `lists` | pages and counts of runs, against a plain model |
//! | `views` | every other view |
//! | `reads` | what a view reads, counted |
//! | `values` | exact numbers, large and hostile values |
//! | `sizes` | answers that stay below the limit of an answer |
//! | `steering` | what each action plans and does |
//! | `guards` | runs that changed after the plan, refusals |
//! | `promises` | random graphs: what a plan says is what happens |
//! | `problems` | what the home page says about a store |
//! | `outages` | stores that fail or hang |

mod fixture;
mod graphs;
mod probe;

mod guards;
mod lists;
mod problems;
mod promises;
mod reads;
mod sizes;
mod steering;
mod values;
mod views;
