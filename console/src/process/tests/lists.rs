//! The views that list members.

use super::*;

#[tokio::test]
async fn k2_tree_lists_open_branches_as_rows() {
    let (system, source) = shop();
    let tills = system.supervisor("tills", OneForOne::new()).unwrap();
    for name in ["a", "b", "c"] {
        tills.spawn(name, till()).unwrap();
    }
    system.spawn("stock", till()).unwrap();
    let open = json!({ "open": ["/", "/user", "/user/tills"] });
    let tree = ask(&source, "tree", open).await.unwrap();
    let listed = paths(&tree["rows"]);
    assert_eq!(listed[0], "/");
    let at = listed.iter().position(|path| path == "/user").unwrap();
    assert_eq!(listed[at + 1..at + 6], ["/user/tills", "/user/tills/a", "/user/tills/b", "/user/tills/c", "/user/stock"]);
    assert_eq!(tree["total"], listed.len());
    assert_eq!((&tree["rows"][at + 2]["depth"], &tree["rows"][at + 1]["is_open"]), (&json!(3), &json!(true)));

    let window = json!({ "path": "/user", "open": ["/user", "/user/tills"], "first": 3, "count": 2 });
    let tree = ask(&source, "tree", window).await.unwrap();
    assert_eq!(paths(&tree["rows"]), ["/user/tills/b", "/user/tills/c"]);
    assert_eq!((&tree["first"], &tree["total"]), (&json!(3), &json!(6)));
}

#[tokio::test]
async fn k2_member_top_and_not_well_answer_over_memory() {
    let (system, source) = shop();
    let cash = system.spawn("cash", till()).unwrap();
    cash.tell(0).unwrap();
    cash.tell(1).unwrap();
    while cash.counts().handled == 0 {
        tokio::task::yield_now().await;
    }
    let member = ask(&source, "member", json!({ "path": "/user/cash" })).await.unwrap();
    assert_eq!(member["member"]["actor"]["counts"]["failed"], 1);
    assert_eq!(member["ancestors"], json!([{ "path": "/", "kind": "root" }, { "path": "/user", "kind": "guardian" }]));
    let top = ask(&source, "top", json!({ "by": "failed" })).await.unwrap();
    assert_eq!(paths(&top["rows"]), ["/user/cash"]);
    let ill = ask(&source, "not_well", json!({})).await.unwrap();
    assert_eq!(paths(&ill["members"]), ["/user/cash"]);
    let refused = ask(&source, "top", json!({ "by": "beauty" })).await.unwrap_err();
    assert_eq!(refused.code, "bad_request");
    let gone = ask(&source, "member", json!({ "path": "/user/nobody" })).await.unwrap_err();
    assert_eq!(gone.code, "not_found");
    assert_eq!(source.describe()["is_connected"], true);
}
