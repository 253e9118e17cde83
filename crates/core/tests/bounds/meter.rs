//! Counts what a run on the calling thread takes: memory, allocations, and CPU time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts what each thread allocates.
struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Adds an allocation of `bytes`. A thread that ends may have no counters any more.
fn count(bytes: usize) {
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get() + bytes as isize);
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
    let _ = ALLOCATIONS.try_with(|all| all.set(all.get() + 1));
}

// SAFETY: the system's allocator does all the work, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        let _ = LIVE_BYTES.try_with(|live| live.set(live.get() - layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = LIVE_BYTES.try_with(|live| live.set(live.get() - layout.size() as isize));
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory and time that a run took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Greatest memory in use at a time, bytes.
    pub peak_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// CPU time of the thread, ns.
    pub cpu_ns: u64,
}

/// Runs `work` on the calling thread; returns its result and what it took.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Taken) {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let (allocations, cpu) = (ALLOCATIONS.get(), cpu_ns());
    let result = work();
    let taken = Taken {
        cpu_ns: cpu_ns() - cpu,
        peak_bytes: (PEAK_BYTES.get() - before).max(0) as u64,
        allocations: ALLOCATIONS.get() - allocations,
    };
    (result, taken)
}

/// CPU time of the calling thread, ns: other programs do not add to it.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
