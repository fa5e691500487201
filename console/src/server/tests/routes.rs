//! Tests of the guard and of the routes, without a socket.

use crate::server::guard::RouteKind;
use crate::server::routes::{Route, routes};
use crate::testing::{HOST, Server, json_of};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};

/// Sends a request that no rule of the guard changes, except for `change`.
async fn status(server: &Server, route: &Route, change: impl FnOnce(&mut Request<Body>)) -> StatusCode {
    let mut request = server.request(route.method.as_str(), route.path).body(Body::empty()).unwrap();
    change(&mut request);
    server.send(request).await.status()
}

fn set(request: &mut Request<Body>, name: &'static str, value: &str) {
    request.headers_mut().insert(name, value.parse().unwrap());
}

#[tokio::test]
async fn k7_no_route_answers_without_the_token() {
    let server = Server::new();
    let routes = routes();
    assert!(routes.iter().filter(|route| route.kind == RouteKind::Data).count() >= 7);
    for route in routes {
        let path = route.path;
        let without = status(&server, &route, |request| drop(request.headers_mut().remove("authorization"))).await;
        let wrong = status(&server, &route, |request| set(request, "authorization", "Bearer 00")).await;
        let other_scheme = status(&server, &route, |request| {
            let token = server.bearer().replace("Bearer", "Basic");
            set(request, "authorization", &token);
        })
        .await;
        let in_query = status(&server, &route, |request| {
            request.headers_mut().remove("authorization");
            let token = server.bearer().replace("Bearer ", "");
            *request.uri_mut() = format!("{path}?token={token}").parse().unwrap();
            set(request, "cookie", &format!("token={token}"));
        })
        .await;
        let given = [without, wrong, other_scheme, in_query];
        if route.kind == RouteKind::Data {
            assert_eq!(given, [StatusCode::UNAUTHORIZED; 4], "{path}");
        } else {
            assert_eq!(given, [StatusCode::OK; 4], "{path}");
            assert!(!path.starts_with("/api/"), "{path} needs a token");
        }
    }
}

#[tokio::test]
async fn k7_every_route_refuses_foreign_hosts_and_origins() {
    let server = Server::new();
    for route in routes() {
        let path = route.path;
        for (name, value) in [
            ("host", "evil.example"),
            ("host", "evil.example:4000"),
            ("host", "127.0.0.1.evil.example:4000"),
            ("host", ""),
            ("origin", "http://evil.example"),
            ("origin", "http://127.0.0.1:4001"),
            ("origin", "https://127.0.0.1:4000"),
            ("origin", "http://127.0.0.1:4000.evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let refused = status(&server, &route, |request| set(request, name, value)).await;
            assert_eq!(refused, StatusCode::FORBIDDEN, "{path} with {name}: {value}");
        }
        let without_host = status(&server, &route, |request| drop(request.headers_mut().remove("host"))).await;
        let two_hosts = status(&server, &route, |request| {
            request.headers_mut().append("host", HOST.parse().unwrap());
        })
        .await;
        let as_proxy = status(&server, &route, |request| {
            *request.uri_mut() = format!("http://{HOST}{path}").parse().unwrap();
        })
        .await;
        assert_eq!([without_host, two_hosts, as_proxy], [StatusCode::FORBIDDEN; 3], "{path}");
    }
}

#[tokio::test]
async fn k7_a_link_of_another_site_opens_a_page_and_nothing_else() {
    let server = Server::new();
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    for route in routes() {
        let path = route.path;
        let opened = async |changed: Option<(&'static str, &'static str)>| {
            status(&server, &route, |request| {
                for (name, value) in link.into_iter().chain(changed) {
                    set(request, name, value);
                }
            })
            .await
        };
        let expected = if route.kind == RouteKind::Page { StatusCode::OK } else { StatusCode::FORBIDDEN };
        assert_eq!(opened(None).await, expected, "{path}");
        for other in [
            ("sec-fetch-dest", "iframe"),
            ("sec-fetch-dest", "object"),
            ("sec-fetch-mode", "no-cors"),
            ("sec-fetch-mode", "cors"),
            ("origin", "http://evil.example"),
            ("host", "evil.example"),
        ] {
            assert_eq!(opened(Some(other)).await, StatusCode::FORBIDDEN, "{path} with {other:?}");
        }
    }
    let post = server.request("POST", "/").header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
    let post = post.header("sec-fetch-dest", "document").body(Body::empty()).unwrap();
    assert_eq!(server.send(post).await.status(), StatusCode::FORBIDDEN, "a form is not a link");
}

#[tokio::test]
async fn k7_a_form_of_another_site_changes_nothing() {
    let server = Server::new();
    for route in routes().iter().filter(|route| route.method == Method::POST) {
        let form = status(&server, route, |request| {
            request.headers_mut().remove("authorization");
            set(request, "origin", "http://evil.example");
            set(request, "sec-fetch-site", "cross-site");
            set(request, "content-type", "application/x-www-form-urlencoded");
        })
        .await;
        assert_eq!(form, StatusCode::FORBIDDEN, "{}", route.path);
        // Even with the token, a body that a form could send is not read.
        let plain = status(&server, route, |request| set(request, "content-type", "text/plain")).await;
        assert_eq!(plain, StatusCode::BAD_REQUEST, "{}", route.path);
    }
    server.source.set(json!({ "members": [] }));
    let body = json!({ "view": "not_well", "process": "p0" }).to_string();
    for (kind, expected) in [
        ("application/json", StatusCode::OK),
        ("text/plain", StatusCode::BAD_REQUEST),
        ("multipart/form-data", StatusCode::BAD_REQUEST),
        ("application/x-www-form-urlencoded", StatusCode::BAD_REQUEST),
        ("", StatusCode::BAD_REQUEST),
    ] {
        let mut request = server.request("POST", "/api/view").body(Body::from(body.clone())).unwrap();
        set(&mut request, "content-type", kind);
        assert_eq!(server.send(request).await.status(), expected, "{kind:?}");
    }
}

#[tokio::test]
async fn k7_routes_are_exact() {
    let server = Server::new();
    for route in routes().iter().filter(|route| route.path.len() > 1) {
        let (method, path) = (route.method.as_str(), route.path);
        let encoded = format!("/{}", path[1..].replace('/', "%2F"));
        let letter = format!("/%{:02x}{}", path.as_bytes()[1], &path[2..]);
        for changed in [
            encoded,
            letter,
            format!("{path}/"),
            format!("/{path}"),
            format!("{path}%00"),
            format!("{path}/health"),
            format!("/x/..{path}"),
            format!("/.{path}"),
            path.to_uppercase(),
        ] {
            if changed == *path {
                continue;
            }
            let anonymous = Request::builder().method(method).uri(&changed).header("host", HOST).body(Body::empty()).unwrap();
            assert_eq!(server.send(anonymous).await.status(), StatusCode::UNAUTHORIZED, "{changed}");
            let known = server.request(method, &changed).body(Body::empty()).unwrap();
            assert_eq!(server.send(known).await.status(), StatusCode::NOT_FOUND, "{changed}");
        }
    }
    let (status, answer) = server.ask("DELETE", "/api/view", Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed")));
}

#[tokio::test]
async fn k7_an_oversized_body_is_refused() {
    let server = Server::new();
    for route in routes().iter().filter(|route| route.method == Method::POST) {
        let body = Body::from(vec![b' '; 5 * 1024 * 1024]);
        let (status, answer) = json_of(server.send(server.request("POST", route.path).body(body).unwrap()).await).await;
        assert_eq!((status, &answer["error"]["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("too_long")), "{}", route.path);
    }
}

#[tokio::test]
async fn k7_every_answer_has_the_strict_headers() {
    let server = Server::new();
    let refused = Request::builder().uri("/api/view").header("host", "evil.example").body(Body::empty()).unwrap();
    for request in [
        server.request("GET", "/").body(Body::empty()).unwrap(),
        server.request("GET", "/api/console").body(Body::empty()).unwrap(),
        server.request("GET", "/api/stream").body(Body::empty()).unwrap(),
        server.request("GET", "/nowhere").body(Body::empty()).unwrap(),
        refused,
    ] {
        let uri = request.uri().to_string();
        let response = server.send(request).await;
        let header = |name: header::HeaderName| response.headers().get(name).map(|value| value.to_str().unwrap().to_string());
        let policy = header(header::CONTENT_SECURITY_POLICY).unwrap();
        for rule in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'"]
        {
            assert!(policy.contains(rule), "{uri}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{uri}: {policy}");
        assert_eq!(header(header::X_CONTENT_TYPE_OPTIONS).as_deref(), Some("nosniff"), "{uri}");
        assert_eq!(header(header::REFERRER_POLICY).as_deref(), Some("no-referrer"), "{uri}");
        let cached = header(header::CACHE_CONTROL).unwrap();
        assert_eq!(cached, if uri == "/" { "private, no-cache" } else { "no-store" }, "{uri}");
        assert!(header(header::ACCESS_CONTROL_ALLOW_ORIGIN).is_none() && header(header::SET_COOKIE).is_none(), "{uri}");
    }
}

#[tokio::test]
async fn k1_the_page_is_served_once_and_then_known() {
    let server = Server::new();
    let first = server.send(server.request("GET", "/run?store=s0").body(Body::empty()).unwrap()).await;
    let tag = first.headers()[header::ETAG].to_str().unwrap().to_string();
    assert_eq!(first.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
    let again = server.request("GET", "/run").header("if-none-match", &tag).body(Body::empty()).unwrap();
    assert_eq!(server.send(again).await.status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn k4_a_console_is_read_only_by_default() {
    let (status, console) = Server::new().ask("GET", "/api/console", Value::Null).await;
    assert_eq!((status, &console["is_read_only"]), (StatusCode::OK, &json!(true)));
    assert_eq!(console["processes"], json!([{ "key": "p0", "name": "scripted" }]));
}

#[tokio::test]
async fn k3_a_failed_view_is_an_error_and_not_an_empty_list() {
    let server = Server::new();
    let q = "/api/view?q=%7B%22view%22%3A%22not_well%22%2C%22process%22%3A%22p0%22%7D";
    server.source.set(json!({ "members": [] }));
    assert_eq!(server.ask("GET", q, Value::Null).await, (StatusCode::OK, json!({ "members": [] })));
    server.source.set(json!("the process is gone"));
    let (status, answer) = server.ask("GET", q, Value::Null).await;
    assert_eq!((status, &answer["error"]["text"]), (StatusCode::BAD_GATEWAY, &json!("the process is gone")));
    server.source.set(json!("panic"));
    let (status, answer) = server.ask("GET", q, Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("internal")));
}

#[tokio::test]
async fn k8_a_view_can_be_posted() {
    let server = Server::new();
    server.source.set(json!({ "rows": [] }));
    let tree = json!({ "view": "tree", "process": "p0", "open": ["/user"] });
    assert_eq!(server.ask("POST", "/api/view", tree).await, (StatusCode::OK, json!({ "rows": [] })));
    for wrong in [
        json!({ "view": "tree", "process": "p0", "unknown": 1 }),
        json!({ "view": "tree", "process": "p0", "count": 201 }),
        json!({ "view": "nothing" }),
        json!([]),
    ] {
        assert_eq!(server.ask("POST", "/api/view", wrong.clone()).await.0, StatusCode::BAD_REQUEST, "{wrong}");
    }
    let nowhere = json!({ "view": "tree", "process": "p7" });
    assert_eq!(server.ask("POST", "/api/view", nowhere).await.0, StatusCode::NOT_FOUND);
}
