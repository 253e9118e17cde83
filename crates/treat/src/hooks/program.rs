//! The compiled programs, where the build had clang.

/// Returns the compiled program that sets an option of new connections; `None` if there was no
/// clang at build time.
#[cfg(kernel_hooks)]
pub(super) fn established() -> Option<&'static [u8]> {
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/established.bpf.o")))
}

/// Returns the compiled program that sets an option of new connections; `None` if there was no
/// clang at build time.
#[cfg(not(kernel_hooks))]
pub(super) fn established() -> Option<&'static [u8]> {
    None
}

/// Returns the compiled program that limits SYNs; `None` if there was no clang at build time.
#[cfg(kernel_hooks)]
pub(super) fn syn_limit() -> Option<&'static [u8]> {
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/syn_limit.bpf.o")))
}

/// Returns the compiled program that limits SYNs; `None` if there was no clang at build time.
#[cfg(not(kernel_hooks))]
pub(super) fn syn_limit() -> Option<&'static [u8]> {
    None
}
