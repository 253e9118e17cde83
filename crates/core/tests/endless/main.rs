//! A continuous diagnosis takes no more memory the longer it lasts, whatever traffic it sees: bytes
//! are counted as they are allocated.

mod traffic;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tcpwhy_core::capture::Block;
use tcpwhy_core::pipeline::{Options, Sliding};
use traffic::{KINDS, Kind, Traffic};

/// The system's allocator, and how many bytes it has given out.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is done by the system's allocator, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps what is asked of it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps what is asked of it.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Connections in an interval.
const EACH: u32 = 256;
/// Intervals: half of the connections in them are more than what is kept apart of any sort.
const INTERVALS: usize = 64;
/// The window, in intervals.
const WINDOW: usize = 4;

/// Most bytes that were held after an interval of the first half, and of the second.
fn peaks(kind: Kind) -> [usize; 2] {
    let before = BYTES.load(Ordering::Relaxed);
    let (mut sliding, mut block) = (Sliding::new(Options::default(), WINDOW), Block::default());
    let (mut traffic, mut peaks) = (Traffic::new(kind), [0, 0]);
    for interval in 0..INTERVALS {
        traffic.fill(EACH, &mut block);
        sliding.take(&block);
        sliding.cut();
        if interval % 8 == 0 {
            sliding.report(&[]);
        }
        block = Block::default();
        let held = BYTES.load(Ordering::Relaxed) - before;
        let peak = &mut peaks[2 * interval / INTERVALS];
        *peak = held.max(*peak);
    }
    let exchanges = sliding.whole(&[]).totals.exchanges;
    let least = if kind == Kind::Resolver { 0 } else { u64::from(EACH) * (INTERVALS as u64 - 1) };
    assert!(exchanges >= least, "{kind:?}: {exchanges} exchanges are in the whole");
    peaks
}

/// One test: what others allocate meanwhile would be counted as well.
#[test]
fn strangers_without_end_take_no_more_memory() {
    for kind in KINDS {
        let [early, late] = peaks(kind);
        println!("{kind:?}: {} KiB, then {} KiB", early >> 10, late >> 10);
        assert!(4 * late <= 5 * early, "{kind:?}: {early} bytes, then {late}");
    }
}
