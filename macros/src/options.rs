//! [`Options`]: what is in the parentheses of the attribute.

use crate::fault::Fault;
use proc_macro2::{Ident, Literal, Punct, Spacing, TokenStream, TokenTree};

/// How many seeds a test runs without an option.
const SEEDS_DEFAULT: u64 = 100;

/// The seeds, and the faults as an expression.
pub(crate) struct Options {
    pub(crate) seeds: Seeds,
    pub(crate) faults: Option<TokenStream>,
}

/// Which seeds a test runs.
pub(crate) enum Seeds {
    /// An expression of a range.
    Range(TokenStream),
    /// An expression of a number.
    One(TokenStream),
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self, Fault> {
        let (mut seeds, mut faults) = (None, None);
        for (name, value) in pairs(tokens)? {
            let is_given = match name.to_string().as_str() {
                "seeds" => seeds.replace(Seeds::Range(range(value))).is_some(),
                "seed" => seeds.replace(Seeds::One(value)).is_some(),
                "faults" => faults.replace(value).is_some(),
                other => {
                    let text = format!("unknown option `{other}`; use `seeds = 1000`, `seed = 7` or `faults = …`");
                    return Err(Fault::new(name.span(), text));
                }
            };
            if is_given {
                let text = format!("`{name}` contradicts an earlier option; give the seeds once, and the faults once");
                return Err(Fault::new(name.span(), text));
            }
        }
        let default = || Seeds::Range(from_zero(TokenTree::from(Literal::u64_unsuffixed(SEEDS_DEFAULT)).into()));
        Ok(Self { seeds: seeds.unwrap_or_else(default), faults })
    }
}

/// Divides `name = value, ..` into pairs.
fn pairs(tokens: TokenStream) -> Result<Vec<(Ident, TokenStream)>, Fault> {
    let (mut pairs, mut left) = (Vec::new(), tokens.into_iter().peekable());
    while let Some(first) = left.next() {
        let TokenTree::Ident(name) = first else {
            return Err(Fault::new(first.span(), "expected an option such as `seeds = 1000`"));
        };
        if !matches!(left.next(), Some(TokenTree::Punct(sign)) if sign.as_char() == '=') {
            return Err(Fault::new(name.span(), format!("the option `{name}` needs a value: `{name} = …`")));
        }
        let mut value = Vec::new();
        while let Some(token) = left.next_if(|token| !matches!(token, TokenTree::Punct(comma) if comma.as_char() == ',')) {
            value.push(token);
        }
        left.next();
        if value.is_empty() {
            return Err(Fault::new(name.span(), format!("the option `{name}` needs a value: `{name} = …`")));
        }
        pairs.push((name, value.into_iter().collect()));
    }
    Ok(pairs)
}

/// A single number is a count of seeds; anything else is a range.
fn range(value: TokenStream) -> TokenStream {
    let mut tokens = value.clone().into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Literal(_)), None) => from_zero(value),
        _ => value,
    }
}

fn from_zero(end: TokenStream) -> TokenStream {
    let zero = TokenTree::from(Literal::u64_unsuffixed(0));
    let dots = [Punct::new('.', Spacing::Joint), Punct::new('.', Spacing::Alone)];
    [zero].into_iter().chain(dots.map(TokenTree::Punct)).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(String, String), String> {
        let options = Options::parse(text.parse().unwrap());
        let text = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        let seeds = |seeds| match seeds {
            Seeds::Range(range) => text(range),
            Seeds::One(seed) => format!("one {}", text(seed)),
        };
        options.map(|options| (seeds(options.seeds), options.faults.map_or_else(String::new, text))).map_err(|fault| fault.text)
    }

    #[test]
    fn d5_options_of_a_test_become_expressions() {
        let pair = |seeds: &str, faults: &str| Ok((seeds.to_string(), faults.to_string()));
        assert_eq!(parse(""), pair("0..100", ""));
        assert_eq!(parse("seeds = 1000"), pair("0..1000", ""));
        assert_eq!(parse("seeds = 1_000,"), pair("0..1_000", ""));
        assert_eq!(parse("seeds = 5..FEW"), pair("5..FEW", ""));
        assert_eq!(parse("seed = 7"), pair("one 7", ""));
        assert_eq!(parse("faults = [A.rate(0.1), B], seeds = 3"), pair("0..3", "[A.rate(0.1),B]"));
    }

    #[test]
    fn d5_wrong_options_of_a_test_are_named() {
        let wrong = |text| parse(text).unwrap_err();
        assert_eq!(wrong("sedes = 3"), "unknown option `sedes`; use `seeds = 1000`, `seed = 7` or `faults = …`");
        assert_eq!(wrong("seeds"), "the option `seeds` needs a value: `seeds = …`");
        assert_eq!(wrong("seeds = , faults = 1.0"), "the option `seeds` needs a value: `seeds = …`");
        assert_eq!(wrong("1000"), "expected an option such as `seeds = 1000`");
        let twice = "`seed` contradicts an earlier option; give the seeds once, and the faults once";
        assert_eq!(wrong("seeds = 3, seed = 1"), twice);
    }
}
