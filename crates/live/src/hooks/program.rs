//! The compiled programs, where the build had clang.

/// `true` if this binary has hooks, that is, clang was present at build time.
pub const BUILT: bool = cfg!(kernel_hooks);

/// The compiled program of the hook in this folder; `None` if there was no clang at build time.
#[cfg(kernel_hooks)]
macro_rules! program {
    ($folder:ident) => {
        Some(aya::include_bytes_aligned!(concat!(
            env!("OUT_DIR"),
            "/",
            stringify!($folder),
            ".bpf.o"
        )) as &'static [u8])
    };
}

/// The compiled program of the hook in this folder; `None` if there was no clang at build time.
#[cfg(not(kernel_hooks))]
macro_rules! program {
    ($folder:ident) => {
        None
    };
}

pub(super) use program;

/// Returns the compiled programs that capture frames; `None` if there was no clang at build time.
pub(super) fn frames() -> Option<&'static [u8]> {
    program!(frames)
}
