//! The attribute macro of `pleach`: a test that runs in the simulator, once per seed.
//!
//! Use it through `pleach`, with its feature `macros`: `#[pleach::test]`.
//!
//! | module | owns |
//! |---|---|
//! | `options` | what is in the parentheses of the attribute |
//! | `function` | the parts of the function below the attribute |
//! | `expand` | the test that is made of both |
//! | `fault` | errors, and how the compiler shows them |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod expand;
mod fault;
mod function;
mod options;

use proc_macro::TokenStream;

/// Makes a test that runs in one simulation per seed.
///
/// The function has one parameter, the simulation: `&Sim` or `Sim`. It may be `async`, and may
/// return a `Result`. Each option is given at most once:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `seeds = 1000`, `seeds = 50..60` | how many seeds from 0 on, or which | `seeds = 100` |
/// | `seed = 7` | this seed only | |
/// | `faults = …` | what `Exploration::faults` takes: a rate, a fault, or several | no faults |
///
/// The environment variables of `pleach::sim::explore` apply.
#[proc_macro_attribute]
pub fn test(options: TokenStream, function: TokenStream) -> TokenStream {
    match expand::test(options.into(), function.clone().into()) {
        Ok(test) => test.into(),
        // The function stays, so that the error is the only one that the compiler shows.
        Err(fault) => TokenStream::from(fault.into_tokens()).into_iter().chain(function).collect(),
    }
}
