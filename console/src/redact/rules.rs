//! [`Redaction`]: which keys and texts are secret.

use crate::failure::Failure;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Keys that are secret by default, without separators and in lower case. A key is secret if it
/// ends with one of them, as `db_password` and `X-Api-Key` do.
const KEYS: [&str; 34] = [
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "passwordhash",
    "passcode",
    "passkey",
    "secret",
    "secrets",
    "secretkey",
    "clientsecrets",
    "token",
    "authtokens",
    "accesstokens",
    "refreshtokens",
    "apikey",
    "apikeys",
    "accesskey",
    "accesskeyid",
    "authorization",
    "authorisation",
    "bearer",
    "cookie",
    "cookies",
    "privatekey",
    "privatekeypem",
    "signingkey",
    "encryptionkey",
    "credential",
    "credentials",
    "sessionid",
    "cvv",
    "cvc",
];

/// Replaces parts of a text; `None` if there is nothing to replace.
type TextRule = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the console hides: in answers, streams, downloads, errors and logs alike.
///
/// By default it hides the values of JSON keys such as `password`, `api_key`, `authorization` or
/// `privateKey` at any depth, also in JSON texts within texts; the item after an option such as
/// `--password` in a list, and the second of a pair in a list of pairs; `key=value`, `key: value`
/// and `--key value` with such keys; `Bearer …`; passwords in URLs; and private keys in PEM format.
/// It shows `[redacted]` instead.
///
/// ```
/// use pleach_console::Redaction;
///
/// let redaction = Redaction::new()
///     .keys(["iban", "tax number"])
///     .text(|text| text.contains("4111").then(|| text.replace("4111", "[card]")));
/// # let _ = redaction;
/// ```
#[derive(Clone, Default)]
#[must_use = "pass it to `redact` of the builder"]
pub struct Redaction {
    /// Further keys, in the form of [`plain_key`].
    keys: Vec<String>,
    texts: Vec<TextRule>,
}

impl Redaction {
    /// Returns the default rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hides the values of further keys. Upper case, spaces, `_`, `-` and `.` make no difference,
    /// and a key is also hidden if it ends with one of these.
    pub fn keys<K: AsRef<str>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys.extend(keys.into_iter().map(|key| plain_key(key.as_ref())).filter(|key| !key.is_empty()));
        self
    }

    /// Adds a function that hides parts of a text. It gets each text after the other rules, and
    /// returns `None` if there is nothing to hide. It must return the same for the same text.
    pub fn text(mut self, rule: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.texts.push(Arc::new(rule));
        self
    }

    /// Redacts with these rules. If one of the user's functions panics, the answer becomes a failure
    /// that shows nothing of what was redacted.
    pub(crate) fn guarded<T>(&self, redact: impl FnOnce(&Self) -> Result<T, Failure>) -> Result<T, Failure> {
        catch_unwind(AssertUnwindSafe(|| redact(self))).unwrap_or_else(|_| {
            tracing::error!(target: "pleach::console", "a function passed to `Redaction::text` panicked");
            let text = "the answer could not be redacted, so it is not shown";
            Err(Failure::new("internal", text).advice("repair the function that was passed to `Redaction::text`"))
        })
    }

    /// Returns whether the value of `key` is secret.
    pub(crate) fn is_secret(&self, key: &str) -> bool {
        KEYS.iter().any(|secret| ends_with(key, secret)) || self.keys.iter().any(|secret| ends_with(key, secret))
    }

    /// Returns whether a JSON pointer goes through a secret key.
    pub(crate) fn is_secret_pointer(&self, pointer: &str) -> bool {
        pointer.split('/').any(|segment| self.is_secret(&segment.replace("~1", "/").replace("~0", "~")))
    }

    /// Applies the functions of the user.
    pub(super) fn apply_texts(&self, mut text: String) -> String {
        for rule in &self.texts {
            if let Some(replaced) = rule(&text) {
                text = replaced;
            }
        }
        text
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redaction").field("keys", &self.keys).field("texts", &self.texts.len()).finish()
    }
}

/// Returns a key in lower case and without separators.
fn plain_key(key: &str) -> String {
    plain_letters(key).collect()
}

fn plain_letters(key: &str) -> impl DoubleEndedIterator<Item = char> {
    key.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase)
}

/// Returns whether the plain form of `key` ends with `secret`. Every word of every text is asked
/// for, and nearly all differ in the last letters: so it compares from the end, without a copy.
fn ends_with(key: &str, secret: &str) -> bool {
    let mut letters = plain_letters(key);
    secret.chars().rev().all(|letter| letters.next_back() == Some(letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn k7_secret_keys_are_found_in_every_spelling() {
        let rules = Redaction::new().keys(["tax number"]);
        for key in [
            "password",
            "PASSWORD",
            "db_password",
            "userPassword",
            "client-secret",
            "access_token",
            "X-Api-Key",
            "apikey",
            "Authorization",
            "Set-Cookie",
            "private_key",
            "private.key",
            "taxNumber",
            "credentials",
        ] {
            assert!(rules.is_secret(key), "{key}");
        }
        for key in ["tokens", "max_tokens", "token_count", "secretary", "key", "passenger", "", "monkey", "author"] {
            assert!(!rules.is_secret(key), "{key}");
        }
        assert!(rules.is_secret_pointer("/users/0/password/hash") && !rules.is_secret_pointer("/users/0/name"));
    }

    /// As it is defined: the plain form of the key ends with a secret one.
    fn is_secret_by_definition(rules: &Redaction, key: &str) -> bool {
        let key = plain_key(key);
        KEYS.iter().any(|secret| key.ends_with(secret)) || rules.keys.iter().any(|secret| key.ends_with(secret.as_str()))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn k7_a_key_is_secret_if_its_plain_form_ends_with_a_secret_one(
            before in any::<String>(),
            number in 0..KEYS.len() + 3,
            between in "[-_. İẞΣ]{0,3}",
            after in "([-_. sS1İ]|\\PC)?",
        ) {
            let own = ["straße", "İd", "Ωmega key"];
            let rules = Redaction::new().keys(own);
            let name: String = KEYS.iter().chain(&own).nth(number).map(|key| key.to_string()).unwrap_or_default();
            let middle = name.char_indices().nth(name.chars().count() / 2).map_or(0, |(at, _)| at);
            let (start, end) = name.split_at(middle);
            for key in [
                format!("{before}{start}{between}{end}{after}"),
                format!("{before}{}{between}{}{after}", start.to_uppercase(), end.to_uppercase()),
                format!("{}{after}", &name[middle..]),
            ] {
                prop_assert_eq!(rules.is_secret(&key), is_secret_by_definition(&rules, &key), "{:?}", key);
            }
        }
    }
}
