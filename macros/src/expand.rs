//! The test that is made of the options and the function.

use crate::fault::Fault;
use crate::function::Function;
use crate::options::{Options, Seeds};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Makes this test, in which the function keeps its text:
///
/// ```text
/// #[::core::prelude::v1::test]
/// fn name() {
///     fn name(sim: &Sim) { .. }
///     ::pleach::sim::Exploration::new(SEEDS).faults(FAULTS).run(|sim| name(sim))
/// }
/// ```
pub(crate) fn test(options: TokenStream, function: TokenStream) -> Result<TokenStream, Fault> {
    let Options { seeds, faults } = Options::parse(options)?;
    let Function { attributes, visibility, is_async, name, borrows, item } = Function::parse(function)?;
    let sim = Ident::new("sim", Span::mixed_site());
    let name: TokenStream = TokenTree::from(name).into();
    let argument = match borrows {
        true => tokens("sim", &[("sim", sim.clone().into())]),
        false => tokens("::pleach::sim::Sim::clone(sim)", &[("sim", sim.clone().into())]),
    };
    let call: TokenStream = name.clone().into_iter().chain([parentheses(argument)]).collect();
    let run = match is_async {
        true => tokens("sim.run", &[("sim", sim.clone().into())]).into_iter().chain([parentheses(call)]).collect(),
        false => call,
    };
    let closure: TokenStream = tokens("|sim|", &[("sim", sim.into())]).into_iter().chain(run).collect();
    let (make, seeds) = match seeds {
        Seeds::Range(range) => ("::pleach::sim::Exploration::new", range),
        Seeds::One(seed) => ("::pleach::sim::Exploration::one", seed),
    };
    let exploration = tokens(make, &[]).into_iter().chain([parentheses(seeds)]);
    let with_faults = faults.map(|faults| tokens(".faults", &[]).into_iter().chain([parentheses(faults)]));
    let body = item.into_iter().chain(exploration).chain(with_faults.into_iter().flatten());
    let body = body.chain(tokens(".run", &[])).chain([parentheses(closure)]).collect();
    let head = tokens("#[::core::prelude::v1::test]", &[]).into_iter().chain(attributes).chain(visibility);
    let head = head.chain(tokens("fn", &[])).chain(name).chain([parentheses(TokenStream::new())]);
    Ok(head.chain([TokenTree::from(Group::new(Delimiter::Brace, body))]).collect())
}

fn parentheses(inside: TokenStream) -> TokenTree {
    Group::new(Delimiter::Parenthesis, inside).into()
}

/// Reads fixed code, and replaces identifiers in it.
fn tokens(code: &str, replaced: &[(&str, TokenTree)]) -> TokenStream {
    let code: TokenStream = code.parse().expect("the code of the macro itself can be read");
    replace(code, replaced)
}

fn replace(code: TokenStream, replaced: &[(&str, TokenTree)]) -> TokenStream {
    let one = |token| match token {
        TokenTree::Ident(ident) => {
            replaced.iter().find(|(name, _)| ident == name).map_or_else(|| ident.clone().into(), |(_, by)| by.clone())
        }
        TokenTree::Group(group) => Group::new(group.delimiter(), replace(group.stream(), replaced)).into(),
        other => other,
    };
    code.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    fn expanded(options: &str, function: &str) -> String {
        super::test(options.parse().unwrap(), function.parse().unwrap()).unwrap().to_string().replace(' ', "")
    }

    #[test]
    fn d5_test_keeps_its_function_and_explores() {
        let plain = expanded("seeds = 9", "fn pays(sim: &Sim) { work(sim) }");
        assert_eq!(
            plain,
            "#[::core::prelude::v1::test]fnpays(){fnpays(sim:&Sim){work(sim)}::pleach::sim::Exploration::new(0..9).run(|sim|pays(sim))}"
        );
        let with_faults = expanded("faults = 0.1", "#[should_panic] async fn pays(sim: Sim) {}");
        let run = ".faults(0.1).run(|sim|sim.run(pays(::pleach::sim::Sim::clone(sim))))}";
        assert!(with_faults.ends_with(run), "{with_faults}");
        assert!(with_faults.starts_with("#[::core::prelude::v1::test]#[should_panic]fnpays(){"), "{with_faults}");
    }
}
