//! [`Settings`]: what the builder was told, apart from what to show.

use serde_json::{Value, json};

/// The name and colour of an environment, shown on every page.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) name: String,
    pub(crate) colour: Colour,
}

/// The colour of an environment.
///
/// The page shows it beside the name, so that production does not look like a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Colour {
    /// Often used for production.
    Red,
    /// Often used for staging.
    Amber,
    /// Often used for development.
    Green,
    /// No common use.
    Blue,
    /// No common use.
    Violet,
    /// The default: no particular environment.
    #[default]
    Grey,
}

impl Colour {
    /// All colours.
    pub const ALL: [Self; 6] = [Self::Red, Self::Amber, Self::Green, Self::Blue, Self::Violet, Self::Grey];

    /// Returns the name of the colour, such as `red`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Amber => "amber",
            Self::Green => "green",
            Self::Blue => "blue",
            Self::Violet => "violet",
            Self::Grey => "grey",
        }
    }
}

/// What the builder was told, apart from what to show.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The name of the console. Default: that of its first source.
    pub(crate) name: Option<String>,
    pub(crate) environment: Option<Environment>,
    pub(crate) allows_actions: bool,
    /// Who orders actions.
    pub(crate) user: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { name: None, environment: None, allows_actions: false, user: "unknown".to_string() }
    }
}

impl Settings {
    /// Returns the part of `GET /api/console` that does not come from the sources.
    pub(crate) fn describe(&self) -> Value {
        let environment = self.environment.as_ref().map(|known| json!({ "name": known.name, "colour": known.colour.name() }));
        json!({
            "name": self.name,
            "environment": environment,
            "is_read_only": !self.allows_actions,
            "version": env!("CARGO_PKG_VERSION"),
            "user": self.user,
        })
    }
}
