//! `xtask-api FILE`: lists the public items of a crate, from its rustdoc JSON in FILE.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(file) = env::args_os().nth(1) else {
        eprintln!("usage: xtask-api FILE, a rustdoc JSON file");
        return ExitCode::from(2);
    };
    // Which auto traits and blanket implementations a type has would be most of the list.
    let listed = public_api::Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    match listed {
        Ok(api) => {
            print!("{api}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot list the API: {error}");
            ExitCode::FAILURE
        }
    }
}
