//! The home page: what is wrong now in all sources.
//!
//! All sources are examined at once. One that fails, or does not answer in time, is a problem
//! itself; it never looks like a source without problems.

use crate::failure::Failure;
use crate::problem::{Advice, Problem, Severity};
use crate::report::text::cut;
use crate::source::{Findings, Source};
use crate::sources::{Sources, alone};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a source may take to be examined.
const EXAMINED_WITHIN: Duration = Duration::from_secs(5);

/// How many problems are listed.
const PROBLEMS_MAX: usize = 100;

/// The bytes of all problems of an answer.
const PROBLEMS_BYTES_MAX: usize = 512 << 10;

/// The longest title and the longest cause in columns. The page of the run or member has all.
const TITLE_MAX: usize = 300;
const CAUSE_MAX: usize = 600;

/// Examines all sources. Returns their problems, the worst first, then the oldest.
pub(crate) async fn look(sources: &Sources) -> Result<Value, Failure> {
    let mut looks: JoinSet<(usize, Findings)> = JoinSet::new();
    for (number, source) in sources.all().enumerate() {
        let source = Arc::clone(source);
        looks.spawn(async move { (number, examine(source).await) });
    }
    let mut findings: Vec<(usize, Findings)> = Vec::new();
    while let Some(look) = looks.join_next().await {
        findings.extend(look.ok());
    }
    findings.sort_by_key(|(number, _)| *number);
    let mut found = Findings::default();
    for (_, findings) in findings {
        found.problems.extend(findings.problems);
        found.quiet.extend(findings.quiet);
        found.is_cut |= findings.is_cut;
    }
    found.problems.sort_by(|one, other| {
        let age = |problem: &Problem| (problem.since.is_none(), problem.since.clone());
        (one.severity, age(one), &one.key).cmp(&(other.severity, age(other), &other.key))
    });
    found.is_cut |= found.problems.len() > PROBLEMS_MAX;
    found.problems.truncate(PROBLEMS_MAX);
    let (mut problems, mut bytes) = (Vec::new(), 0);
    for problem in found.problems {
        let problem = json!(shortened(problem));
        bytes += problem.to_string().len();
        // The first ones are the worst.
        if bytes > PROBLEMS_BYTES_MAX {
            found.is_cut = true;
            break;
        }
        problems.push(problem);
    }
    Ok(json!({ "problems": problems, "quiet": found.quiet, "is_cut": found.is_cut }))
}

fn shortened(mut problem: Problem) -> Problem {
    problem.title = cut(&problem.title, TITLE_MAX);
    problem.cause = problem.cause.as_deref().map(|cause| cut(cause, CAUSE_MAX));
    problem
}

async fn examine(source: Arc<dyn Source>) -> Findings {
    let key = source.key().to_string();
    let examined = alone(async move { source.examine().await });
    let failure = match timeout(EXAMINED_WITHIN, examined).await {
        Ok(Ok(findings)) => return findings,
        Ok(Err(failure)) => failure,
        Err(_) => {
            let limit = EXAMINED_WITHIN.as_secs();
            Failure::new("timed_out", format_args!("{key} was not examined within {limit} s"))
        }
    };
    Findings { problems: vec![unreachable(key, failure)], ..Findings::default() }
}

fn unreachable(source: String, failure: Failure) -> Problem {
    Problem {
        key: format!("{source}:unreachable"),
        severity: Severity::Error,
        kind: "unreachable".to_string(),
        title: format!("{source} cannot be examined"),
        cause: Some(failure.text),
        so: vec!["what it runs is not known".to_string()],
        since: None,
        path: None,
        run: None,
        count: 1,
        advice: failure.advice.map(|text| Advice { text, ..Default::default() }).into_iter().collect(),
        source,
    }
}
