//! The view of one member: what it does, what it waits for, where it stands, and what is wrong.

use crate::failure::Failure;
use crate::process::ledger::Ledgers;
use crate::process::link::Link;
use crate::process::{parse_path, to_json};
use crate::view::MemberAt;
use pleach::inspect::{Client, ClientError, HealthReason, MemberInfo};
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers the view `member`.
pub(super) async fn member(link: &Arc<Link>, ledgers: &Ledgers, at: &MemberAt) -> Result<Value, Failure> {
    let path = parse_path(&at.path)?;
    let mut session = link.session().await?;
    let answer = session.ask(async |client| {
        let member = client.member(&path).await?;
        let ancestors = ancestors(client, &member).await?;
        let why = client.why(&path).await?;
        let rates = client.rates(&path).await?;
        Ok((member, ancestors, why, rates))
    });
    let (member, ancestors, why, rates) = answer.await?;
    let ledger = ledgers.of(&mut session, &member).await?;
    let reasons: Vec<Value> = why.reasons.iter().map(reason_json).collect();
    Ok(json!({
        "member": to_json(&member)?, "ancestors": ancestors, "why": to_json(&why)?,
        "rates": to_json(&rates)?, "ledger": ledger, "reasons": reasons,
    }))
}

/// Returns the members above, from the root down.
async fn ancestors(client: &mut Client, member: &MemberInfo) -> Result<Vec<Value>, ClientError> {
    let (mut above, mut at) = (Vec::new(), member.path.parent());
    while let Some(path) = at {
        let kind = client.member(&path).await?.kind;
        above.push(json!({ "path": path.to_string(), "kind": kind }));
        at = path.parent();
    }
    above.reverse();
    Ok(above)
}

/// Returns the reason as the process sent it, with its sentence.
pub(super) fn reason_json(reason: &HealthReason) -> Value {
    let mut value = serde_json::to_value(reason).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("sentence".to_string(), reason.to_string().into());
    }
    value
}
