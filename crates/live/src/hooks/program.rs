//! The compiled programs, where the build had clang.

use super::HookKind;

/// `true` if this binary has hooks, that is, clang was present at build time.
pub const BUILT: bool = cfg!(kernel_hooks);

/// Returns the compiled program of a hook; `None` if there was no clang at build time.
#[cfg(kernel_hooks)]
pub(super) fn of(hook: HookKind) -> Option<&'static [u8]> {
    macro_rules! object {
        ($stem:literal) => {
            aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/", $stem, ".bpf.o"))
        };
    }
    Some(match hook {
        HookKind::Drop => object!("drop"),
        HookKind::Retransmit => object!("retransmit"),
        HookKind::Unread => object!("unread"),
        HookKind::SndbufWait => object!("sndbuf_wait"),
        HookKind::State => object!("state"),
        HookKind::Options => object!("options"),
    })
}

/// Returns the compiled program of a hook; `None` if there was no clang at build time.
#[cfg(not(kernel_hooks))]
pub(super) fn of(_: HookKind) -> Option<&'static [u8]> {
    None
}

/// Returns the compiled programs that capture frames; `None` if there was no clang at build time.
#[cfg(kernel_hooks)]
pub(super) fn frames() -> Option<&'static [u8]> {
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/frames.bpf.o")))
}

/// Returns the compiled programs that capture frames; `None` if there was no clang at build time.
#[cfg(not(kernel_hooks))]
pub(super) fn frames() -> Option<&'static [u8]> {
    None
}
