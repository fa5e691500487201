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
        hash: "5618a300c5bc3f19",
    },
    Asset {
        path: "/assets/act.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/act.js.gz"),
        hash: "f5e036893059a53e",
    },
    Asset {
        path: "/assets/api.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/api.js.gz"),
        hash: "61198f150f008b0e",
    },
    Asset {
        path: "/assets/app.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/app.js.gz"),
        hash: "115459f0545a5f9c",
    },
    Asset {
        path: "/assets/css/base.css",
        content_type: "text/css; charset=utf-8",
        gzip: include_bytes!("../web/gz/css__base.css.gz"),
        hash: "1768689f30d0685c",
    },
    Asset {
        path: "/assets/css/process.css",
        content_type: "text/css; charset=utf-8",
        gzip: include_bytes!("../web/gz/css__process.css.gz"),
        hash: "336fcc4c68a0312f",
    },
    Asset {
        path: "/assets/css/shell.css",
        content_type: "text/css; charset=utf-8",
        gzip: include_bytes!("../web/gz/css__shell.css.gz"),
        hash: "f89963b4fb5a2ba6",
    },
    Asset {
        path: "/assets/css/tokens.css",
        content_type: "text/css; charset=utf-8",
        gzip: include_bytes!("../web/gz/css__tokens.css.gz"),
        hash: "1fba5af3ba4e84da",
    },
    Asset {
        path: "/assets/dialog.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/dialog.js.gz"),
        hash: "9c1f63389b7c106a",
    },
    Asset {
        path: "/assets/grid.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/grid.js.gz"),
        hash: "de19224acd693ddb",
    },
    Asset {
        path: "/assets/hub.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/hub.js.gz"),
        hash: "bdbd679652620f25",
    },
    Asset {
        path: "/assets/icon.svg",
        content_type: "image/svg+xml",
        gzip: include_bytes!("../web/gz/icon.svg.gz"),
        hash: "be6c26d5dfb2dabc",
    },
    Asset {
        path: "/assets/icons.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/icons.js.gz"),
        hash: "9cebf43c1d428122",
    },
    Asset {
        path: "/assets/keys.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/keys.js.gz"),
        hash: "cc07a82b1cb82ecd",
    },
    Asset {
        path: "/assets/lib.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/lib.js.gz"),
        hash: "774897758b0346e8",
    },
    Asset {
        path: "/assets/live-worker.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/live-worker.js.gz"),
        hash: "002a8b5b2a2a4c28",
    },
    Asset {
        path: "/assets/live.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/live.js.gz"),
        hash: "f7c96b8c3f9bd98c",
    },
    Asset {
        path: "/assets/palette.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/palette.js.gz"),
        hash: "cea91865ed342bc4",
    },
    Asset {
        path: "/assets/router.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/router.js.gz"),
        hash: "dd1b9fd5e6a85ee6",
    },
    Asset {
        path: "/assets/routes.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/routes.js.gz"),
        hash: "36e67ef425f94fa6",
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
        path: "/assets/shell.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/shell.js.gz"),
        hash: "6d79b374a954e05c",
    },
    Asset {
        path: "/assets/sources.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/sources.js.gz"),
        hash: "89c92b12d9a87091",
    },
    Asset {
        path: "/assets/states.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/states.js.gz"),
        hash: "dc95f65839f8ddc5",
    },
    Asset {
        path: "/assets/text.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/text.js.gz"),
        hash: "a7eb7473a8433998",
    },
    Asset {
        path: "/assets/theme.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/theme.js.gz"),
        hash: "3c87986c83e17bd2",
    },
    Asset {
        path: "/assets/time.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/time.js.gz"),
        hash: "b794acb2807e7d6b",
    },
    Asset {
        path: "/assets/ui.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/ui.js.gz"),
        hash: "b8291e9750121bcc",
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
    Asset {
        path: "/assets/window.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../web/gz/window.js.gz"),
        hash: "ceeb0309957cb8a7",
    },
];
