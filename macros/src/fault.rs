//! [`Fault`]: an error in the use of the macro.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// What is wrong, and where the compiler shows it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) span: Span,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(span: Span, text: impl Into<String>) -> Self {
        Self { span, text: text.into() }
    }

    /// Returns `::core::compile_error! { "text" }`, at the place of the fault.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let mut text = Literal::string(&self.text);
        text.set_span(self.span);
        let colons = [Punct::new(':', Spacing::Joint), Punct::new(':', Spacing::Alone)];
        let path = |name: &str| colons.clone().map(TokenTree::Punct).into_iter().chain([Ident::new(name, self.span).into()]);
        let group = Group::new(Delimiter::Brace, TokenTree::Literal(text).into());
        let tokens = path("core").chain(path("compile_error")).chain([Punct::new('!', Spacing::Alone).into(), group.into()]);
        let at = |mut token: TokenTree| {
            token.set_span(self.span);
            token
        };
        tokens.map(at).collect()
    }
}
