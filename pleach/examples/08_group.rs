//! A group fetches pages, four at a time, and yields them in completion order.
//!
//! Run it with `cargo run --package pleach --example 08_group`. It needs no network.

use pleach::CancelToken;
use pleach::prelude::*;
use pleach::scope::Elapsed;

struct Page {
    url: String,
    bytes: usize,
}

#[derive(Debug)]
struct NotFound;

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("404 not found")
    }
}

impl std::error::Error for NotFound {}

/// A fake server: some pages are slow, some are missing, one never answers.
async fn fetch(number: u64, url: String, token: CancelToken) -> Result<Page, NotFound> {
    let takes = if number == 9 { Duration::from_secs(3_600) } else { Duration::from_millis(number * 7 % 20) };
    tokio::time::sleep(takes).await;
    assert!(!token.is_cancelled(), "without fail-fast no task is cancelled");
    if number % 5 == 3 { Err(NotFound) } else { Ok(Page { bytes: url.len() * 100, url }) }
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let system = ActorSystem::new("crawler")?;
    // At most four tasks and eight unread results. A failure does not cancel the others.
    let pages = system.group::<Page>("pages").limit(4).buffer(8).fail_fast(false).build()?;

    let all = 12;
    let feed = async {
        for number in 0..all {
            let (url, token) = (format!("https://example.com/{number}"), pages.token());
            let name = format!("page-{number}");
            // Waits for a slot. The deadline starts with the task's first poll.
            pages.task().named(&name).timeout(Duration::from_millis(200)).go(fetch(number, url, token)).await?;
        }
        pages.close(); // no more tasks; running tasks continue
        Ok::<(), pleach::Error>(())
    };

    let read = async {
        let (mut done, mut bytes) = (0, 0);
        while let Some(result) = pages.next().await {
            done += 1;
            match result {
                Ok(page) => {
                    bytes += page.bytes;
                    println!("{done:>2}/{all} {} ({} bytes)", page.url, page.bytes);
                }
                Err(error) if error.error::<Elapsed>().is_some() => println!("{done:>2}/{all} gave up: {error}"),
                Err(error) => println!("{done:>2}/{all} {error}"),
            }
        }
        (done, bytes)
    };

    let (fed, (done, bytes)) = tokio::join!(feed, read);
    fed?;
    println!("{done} pages, {bytes} bytes, {} errors", pages.errors().errors.len());
    assert_eq!((done, pages.errors().errors.len()), (12, 3));
    // `wait` returns the first error. Here that is expected.
    println!("the first error: {}", pages.wait().await.unwrap_err());
    system.shutdown(Duration::from_secs(1)).await?;
    Ok(())
}
