//! The files of the page, compressed. Written by `cargo xtask assets`; do not edit.

/// A file of the page.
pub(crate) struct Asset {
    /// The route.
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    /// The contents, compressed with gzip.
    pub(crate) gzip: &'static [u8],
    /// Changes with the contents; for `ETag`.
    pub(crate) hash: &'static str,
}

/// All files. The first one is the page.
pub(crate) static ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        gzip: include_bytes!("../web/gz/index.html.gz"),
        hash: "a18aa2844a83437a",
    },
    Asset {
        path: "/assets/runs/diff-model.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__diff-model.js.gz"),
        hash: "c45b9a2b23ae5439",
    },
    Asset {
        path: "/assets/runs/diff.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__diff.js.gz"),
        hash: "f3e3ea2eac673aea",
    },
    Asset {
        path: "/assets/runs/editor.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__editor.js.gz"),
        hash: "1b6df56ba6fcd168",
    },
    Asset {
        path: "/assets/runs/exact-json.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__exact-json.js.gz"),
        hash: "6cd9882573549726",
    },
    Asset {
        path: "/assets/runs/filters.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__filters.js.gz"),
        hash: "88fd96a480d801af",
    },
    Asset {
        path: "/assets/runs/form.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__form.js.gz"),
        hash: "a3303766045261ec",
    },
    Asset {
        path: "/assets/runs/graph-model.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__graph-model.js.gz"),
        hash: "7b4a3ad4ecc94ff1",
    },
    Asset {
        path: "/assets/runs/graph.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__graph.js.gz"),
        hash: "dfd8ee229cbd26da",
    },
    Asset {
        path: "/assets/runs/schema.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__schema.js.gz"),
        hash: "60a5fd62113c1e80",
    },
    Asset {
        path: "/assets/runs/shell.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__shell.js.gz"),
        hash: "06616b8f136b5ce9",
    },
    Asset {
        path: "/assets/runs/timeline-model.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__timeline-model.js.gz"),
        hash: "c8a99246131df732",
    },
    Asset {
        path: "/assets/runs/value-model.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/runs__value-model.js.gz"),
        hash: "084c951dfaceae63",
    },
    Asset {
        path: "/assets/vendor/codemirror.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/vendor__codemirror.js.gz"),
        hash: "2af9dc636e948b25",
    },
    Asset {
        path: "/assets/vendor/hooks.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/vendor__hooks.js.gz"),
        hash: "f769364b982f4b33",
    },
    Asset {
        path: "/assets/vendor/htm.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/vendor__htm.js.gz"),
        hash: "64d64a8f0e341828",
    },
    Asset {
        path: "/assets/vendor/preact.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/vendor__preact.js.gz"),
        hash: "d020c356c734805f",
    },
    Asset {
        path: "/assets/vendor/signals-core.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/vendor__signals-core.js.gz"),
        hash: "bff0b3af91c82961",
    },
    Asset {
        path: "/assets/vendor/signals.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/vendor__signals.js.gz"),
        hash: "dc795f0a73053435",
    },
    Asset {
        path: "/assets/vendor/uplot.css",
        content_type: "text/css; charset=utf-8",
        gzip: include_bytes!("../web/gz/vendor__uplot.css.gz"),
        hash: "b875a366c1eae1b3",
    },
    Asset {
        path: "/assets/vendor/uplot.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/vendor__uplot.js.gz"),
        hash: "d6bb8cfb7de38bc2",
    },
];
