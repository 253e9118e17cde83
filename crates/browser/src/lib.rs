//! The analysis in a browser: what `tcpwhy report` does, with the files of a page.
//!
//! `make page` compiles it for `wasm32-unknown-unknown` and puts it into `tcpwhy.html`, whose worker
//! (`web/src/page/worker.ts`) provides the imports of [`abi`]. The crate has no bindings generator:
//! five functions cross the border, and all of them pass numbers or UTF-8.

#[cfg(target_arch = "wasm32")]
mod abi;
mod analysis;

pub use analysis::{Asked, PageError, Pass, Reading, document};
