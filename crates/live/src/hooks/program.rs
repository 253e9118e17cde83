//! The compiled programs, where the build had clang.

use super::HookKind;

/// `true` if this binary has hooks, that is, clang was present at build time.
pub const BUILT: bool = cfg!(kernel_hooks);

/// The compiled program of a hook; `None` where the build had no clang.
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

/// The compiled program of a hook; `None` where the build had no clang.
#[cfg(not(kernel_hooks))]
pub(super) fn of(_: HookKind) -> Option<&'static [u8]> {
    None
}

/// The compiled program that sets an option of new connections; `None` where the build had no clang.
#[cfg(kernel_hooks)]
pub(super) fn established() -> Option<&'static [u8]> {
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/established.bpf.o")))
}

/// The compiled program that sets an option of new connections; `None` where the build had no clang.
#[cfg(not(kernel_hooks))]
pub(super) fn established() -> Option<&'static [u8]> {
    None
}

/// The compiled programs that capture frames; `None` where the build had no clang.
#[cfg(kernel_hooks)]
pub(super) fn frames() -> Option<&'static [u8]> {
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/frames.bpf.o")))
}

/// The compiled programs that capture frames; `None` where the build had no clang.
#[cfg(not(kernel_hooks))]
pub(super) fn frames() -> Option<&'static [u8]> {
    None
}

/// The compiled program that limits SYNs; `None` where the build had no clang.
#[cfg(kernel_hooks)]
pub(super) fn syn_limit() -> Option<&'static [u8]> {
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/syn_limit.bpf.o")))
}

/// The compiled program that limits SYNs; `None` where the build had no clang.
#[cfg(not(kernel_hooks))]
pub(super) fn syn_limit() -> Option<&'static [u8]> {
    None
}
