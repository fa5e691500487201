//! [`Function`]: the parts of the function below the attribute.

use crate::fault::Fault;
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// A function with one parameter, the simulation.
pub(crate) struct Function {
    /// Its attributes and its documentation.
    pub(crate) attributes: TokenStream,
    pub(crate) visibility: TokenStream,
    pub(crate) is_async: bool,
    pub(crate) name: Ident,
    /// Whether the simulation is borrowed: `&Sim`.
    pub(crate) borrows: bool,
    /// The function without attributes and visibility.
    pub(crate) item: TokenStream,
}

impl Function {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self, Fault> {
        let mut left = tokens.into_iter().peekable();
        let mut attributes = Vec::new();
        while let Some(hash) = left.next_if(|token| matches!(token, TokenTree::Punct(hash) if hash.as_char() == '#')) {
            attributes.push(hash);
            attributes.extend(left.next());
        }
        let mut visibility = Vec::new();
        if let Some(word) = left.next_if(|token| is_word(token, "pub")) {
            visibility.push(word);
            visibility.extend(left.next_if(|token| matches!(token, TokenTree::Group(_))));
        }
        let item: Vec<TokenTree> = left.collect();
        let mut left = item.iter();
        let mut next = left.next();
        let is_async = next.is_some_and(|token| is_word(token, "async"));
        if is_async {
            next = left.next();
        }
        let span = next.map_or_else(Span::call_site, TokenTree::span);
        if !next.is_some_and(|token| is_word(token, "fn")) {
            return Err(Fault::new(
                span,
                "`#[pleach::test]` belongs on a function: `fn name(sim: &Sim)` or `async fn name(sim: Sim)`",
            ));
        }
        let Some(TokenTree::Ident(name)) = left.next() else {
            return Err(Fault::new(span, "expected the name of the test"));
        };
        let Some(TokenTree::Group(parameters)) = left.next() else {
            return Err(Fault::new(name.span(), format!("the test `{name}` must not have type parameters")));
        };
        let borrows = borrows(name, parameters)?;
        Ok(Self {
            attributes: attributes.into_iter().collect(),
            visibility: visibility.into_iter().collect(),
            is_async,
            name: name.clone(),
            borrows,
            item: item.iter().cloned().collect(),
        })
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// Returns whether the one parameter is a reference.
fn borrows(name: &Ident, parameters: &Group) -> Result<bool, Fault> {
    let wrong = || {
        let text = format!("the test `{name}` needs one parameter, the simulation: `sim: &Sim` or `sim: Sim`");
        Fault::new(parameters.span(), text)
    };
    if parameters.delimiter() != Delimiter::Parenthesis {
        return Err(wrong());
    }
    let mut left = parameters.stream().into_iter().peekable();
    // The pattern: everything before the colon.
    let is_sign = |token: &TokenTree, sign| matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign);
    while left.next_if(|token| !is_sign(token, ':')).is_some() {}
    let (Some(_), Some(first)) = (left.next(), left.next()) else { return Err(wrong()) };
    // A comma within `<..>` cannot be in the type of a simulation.
    let mut after_comma = left.skip_while(|token| !is_sign(token, ',')).skip(1);
    if after_comma.next().is_some() {
        return Err(wrong());
    }
    Ok(is_sign(&first, '&'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Function, String> {
        Function::parse(text.parse().unwrap()).map_err(|fault| fault.text)
    }

    #[test]
    fn d5_parts_of_a_test_function_are_found() {
        let function =
            parse("/// Words.\n#[should_panic(expected = \"no\")] pub(crate) async fn pays(sim: Sim) -> Result<(), E> {}")
                .unwrap();
        assert!(function.is_async && !function.borrows);
        assert_eq!(function.name.to_string(), "pays");
        assert_eq!(function.visibility.to_string().replace(' ', ""), "pub(crate)");
        assert!(function.attributes.to_string().contains("should_panic"));
        assert!(function.item.to_string().starts_with("async fn pays"));
        assert!(parse("fn pays(sim: &pleach::sim::Sim,) {}").unwrap().borrows);
    }

    #[test]
    fn d5_wrong_test_functions_are_named() {
        let wrong = |text| parse(text).err().unwrap();
        let one = "the test `pays` needs one parameter, the simulation: `sim: &Sim` or `sim: Sim`";
        assert_eq!(wrong("fn pays() {}"), one);
        assert_eq!(wrong("fn pays(sim: &Sim, more: u32) {}"), one);
        assert_eq!(wrong("fn pays<T>(sim: &Sim) {}"), "the test `pays` must not have type parameters");
        let no_function = "`#[pleach::test]` belongs on a function: `fn name(sim: &Sim)` or `async fn name(sim: Sim)`";
        assert_eq!(wrong("struct Pays;"), no_function);
        assert_eq!(wrong("const fn pays(sim: &Sim) {}"), no_function);
    }
}
