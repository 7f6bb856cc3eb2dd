//! Runs kernels on the host: slow, exact, and strict about what a GPU would let pass.
//!
//! The blocks of a launch run one after the other. Every thread of a block is a coroutine that gives
//! up control at [`sync_threads`](crate::thread::sync_threads). Between two barriers the threads run in
//! a chosen [`Order`], so a missing barrier shows as a result that depends on the order. Shared memory
//! is checked at each access, starts as garbage, and a barrier that only some threads reach panics.

use crate::shared::SharedValue;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};

/// In which order blocks, and the threads of a block between two barriers, run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ascending.
    Forward,
    /// Descending.
    Reverse,
    /// Pseudo-random by this seed, a new order after every barrier.
    Shuffled(u64),
}

impl Order {
    /// `count` indices in this order; `round` varies the shuffled ones.
    fn indices(self, count: usize, round: u64) -> Vec<usize> {
        let mut indices: Vec<usize> = (0..count).collect();
        match self {
            Order::Forward => {}
            Order::Reverse => indices.reverse(),
            Order::Shuffled(seed) => {
                let mut state = seed ^ round.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                for i in (1..count).rev() {
                    indices.swap(i, (split_mix(&mut state) % (i as u64 + 1)) as usize);
                }
            }
        }
        indices
    }
}

/// The splitmix64 generator (Steele, Lea, Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The geometry of a launch, as for the driver, and the order of its threads.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z; at most 1024 in all.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Order of blocks and threads.
    pub order: Order,
}

/// Where a thread stands: its indices and the launch's dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub thread: [u32; 3],
    pub block: [u32; 3],
    pub block_dim: [u32; 3],
    pub grid_dim: [u32; 3],
}

/// Shared memory in units that align every value.
struct SharedArena {
    units: Vec<u128>,
    bytes: usize,
}

impl SharedArena {
    /// What uninitialised shared memory reads as: a pattern that is neither zero nor a small number.
    const GARBAGE: u128 = 0xA5A5_A5A5_A5A5_A5A5_A5A5_A5A5_A5A5_A5A5;

    fn new(bytes: usize) -> Self {
        Self { units: vec![Self::GARBAGE; bytes.div_ceil(size_of::<u128>())], bytes }
    }

    /// A pointer to the value at `offset`; panics if it is misaligned or outside.
    fn at<T>(&mut self, offset: u32) -> *mut T {
        let (offset, size) = (offset as usize, size_of::<T>());
        assert!(
            offset + size <= self.bytes,
            "shared memory accessed out of bounds: bytes {offset}..{} of {}",
            offset + size,
            self.bytes
        );
        assert!(offset.is_multiple_of(size), "misaligned access of shared memory: {size} bytes at {offset}");
        self.units.as_mut_ptr().wrapping_byte_add(offset).cast()
    }
}

thread_local! {
    static POSITION: Cell<Option<Position>> = const { Cell::new(None) };
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    static SHARED: RefCell<Option<SharedArena>> = const { RefCell::new(None) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

const OUTSIDE: &str = "a device function was called outside of a kernel launch";

pub(crate) fn position() -> Position {
    POSITION.get().expect(OUTSIDE)
}

pub(crate) fn barrier() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "{OUTSIDE}");
    // SAFETY: the pointer was set by the coroutine that is running now and lives as long as it.
    unsafe { (*yielder).suspend(()) };
}

fn with_shared<T, R>(offset: u32, access: impl FnOnce(*mut T) -> R) -> R {
    SHARED.with_borrow_mut(|shared| access(shared.as_mut().expect(OUTSIDE).at(offset)))
}

pub(crate) fn read_shared<T: SharedValue>(offset: u32) -> T {
    // SAFETY: checked to be inside and aligned; a `SharedValue` is plain bits.
    with_shared(offset, |place: *mut T| unsafe { place.read() })
}

pub(crate) fn write_shared<T: SharedValue>(offset: u32, value: T) {
    // SAFETY: as for reading.
    with_shared(offset, |place: *mut T| unsafe { place.write(value) });
}

/// Calls `kernel` once for every thread of the launch.
///
/// # Panics
/// If a kernel breaks the rules: out-of-bounds or misaligned shared memory, a barrier that not all
/// threads of a block reach, more than 1024 threads in a block.
///
/// # Safety
/// The kernel's own contract, as for a launch on a GPU.
pub unsafe fn launch<F: Fn()>(launch: &Launch, kernel: F) {
    let blocks: usize = launch.grid.iter().map(|&n| n as usize).product();
    for block in launch.order.indices(blocks, u64::MAX) {
        run_block(launch, block, &kernel);
    }
}

/// One emulated thread.
struct Thread {
    position: Position,
    /// Set by the coroutine when it first runs.
    yielder: *const Yielder<(), ()>,
    /// `None` once the thread has left the kernel.
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
}

/// Clears the thread-local state of a block, also when a kernel panics.
struct ClearOnDrop;

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        POSITION.set(None);
        YIELDER.set(std::ptr::null());
        SHARED.set(None);
    }
}

/// Splits a linear index into x (fastest), y and z.
fn unravel(index: usize, dim: [u32; 3]) -> [u32; 3] {
    let (x, y) = (dim[0] as usize, dim[1] as usize);
    [(index % x) as u32, (index / x % y) as u32, (index / x / y) as u32]
}

fn run_block<F: Fn()>(launch: &Launch, block: usize, kernel: &F) {
    let count: usize = launch.block.iter().map(|&n| n as usize).product();
    assert!(count <= 1024, "a block of {count} threads; at most 1024 are possible");
    let _clear = ClearOnDrop;
    SHARED.set(Some(SharedArena::new(launch.shared_bytes as usize)));
    let mut threads: Vec<Thread> = (0..count)
        .map(|thread| Thread {
            position: Position {
                thread: unravel(thread, launch.block),
                block: unravel(block, launch.grid),
                block_dim: launch.block,
                grid_dim: launch.grid,
            },
            yielder: std::ptr::null(),
            coroutine: Some(new_coroutine(kernel)),
        })
        .collect();
    for round in 0.. {
        let (mut waiting, mut left) = (0, 0);
        for t in launch.order.indices(count, ((block as u64) << 32) + round) {
            match resume(&mut threads[t]) {
                None => {}
                Some(CoroutineResult::Yield(())) => waiting += 1,
                Some(CoroutineResult::Return(())) => left += 1,
            }
        }
        if waiting == 0 {
            break;
        }
        // Threads that left in an earlier round would have been reported then.
        assert!(
            left == 0,
            "divergent barrier: {waiting} threads of a block wait at sync_threads, {left} left the kernel"
        );
    }
}

/// Runs a thread to its next barrier or to its end; `None` if it had ended before.
fn resume(thread: &mut Thread) -> Option<CoroutineResult<(), ()>> {
    let mut coroutine = thread.coroutine.take()?;
    POSITION.set(Some(thread.position));
    YIELDER.set(thread.yielder);
    let result = coroutine.resume(());
    match result {
        CoroutineResult::Yield(()) => {
            thread.yielder = YIELDER.get();
            thread.coroutine = Some(coroutine);
        }
        CoroutineResult::Return(()) => STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack())),
    }
    Some(result)
}

/// A coroutine that calls the kernel once. It must end or be dropped before `kernel` goes.
fn new_coroutine<F: Fn()>(kernel: &F) -> Coroutine<(), (), (), DefaultStack> {
    /// # Safety
    /// `kernel` must point to a live `F`.
    unsafe fn call<F: Fn()>(kernel: *const ()) {
        // SAFETY: the caller's promise.
        unsafe { (*kernel.cast::<F>())() };
    }
    const STACK_BYTES: usize = 128 << 10;
    let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
        DefaultStack::new(STACK_BYTES).expect("memory for the stack of an emulated thread")
    });
    // The coroutine's type must be free of the borrow: it is kept in a struct without that lifetime.
    let (kernel, call): (*const (), unsafe fn(*const ())) = ((kernel as *const F).cast(), call::<F>);
    Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
        YIELDER.set(yielder);
        // SAFETY: `run_block` holds the kernel and drops every coroutine before it returns.
        unsafe { call(kernel) };
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::SharedMem;
    use crate::thread::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const ORDERS: [Order; 4] = [Order::Forward, Order::Reverse, Order::Shuffled(1), Order::Shuffled(2)];

    fn geometry(grid: [u32; 3], block: [u32; 3], shared_bytes: u32, order: Order) -> Launch {
        Launch { grid, block, shared_bytes, order }
    }

    /// The message of the panic that `run` must end with.
    fn panic_message(run: impl FnOnce()) -> String {
        let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("the kernel breaks a rule");
        match payload.downcast::<String>() {
            Ok(message) => *message,
            Err(payload) => payload.downcast::<&str>().expect("a message").to_string(),
        }
    }

    #[test]
    fn every_thread_runs_once_at_its_own_position() {
        for order in ORDERS {
            let seen = RefCell::new(Vec::new());
            // SAFETY: the kernel only records its position.
            unsafe {
                launch(&geometry([2, 3, 2], [3, 2, 2], 0, order), || {
                    assert_eq!([block_dim_x(), block_dim_y(), block_dim_z()], [3, 2, 2]);
                    assert_eq!([grid_dim_x(), grid_dim_y(), grid_dim_z()], [2, 3, 2]);
                    seen.borrow_mut().push([
                        block_idx_x(),
                        block_idx_y(),
                        block_idx_z(),
                        thread_idx_x(),
                        thread_idx_y(),
                        thread_idx_z(),
                    ]);
                });
            }
            let mut seen = seen.into_inner();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), 2 * 3 * 2 * 3 * 2 * 2);
            assert!(seen.iter().flatten().zip([2, 3, 2, 3, 2, 2].iter().cycle()).all(|(at, end)| at < end));
        }
    }

    /// Thread t writes t, then reads its neighbour's value; without the barrier that is a race.
    fn read_neighbour(order: Order, with_barrier: bool) -> Vec<u32> {
        let out = RefCell::new(vec![0; 8]);
        // SAFETY: all accesses are inside the 8 elements of shared memory.
        unsafe {
            launch(&geometry([1, 1, 1], [8, 1, 1], 32, order), || {
                let shared = SharedMem::<u32>::dynamic(0);
                let t = thread_idx_x();
                shared.write(t, t);
                if with_barrier {
                    sync_threads();
                }
                let value = shared.read((t + 1) % 8);
                out.borrow_mut()[t as usize] = value;
            });
        }
        out.into_inner()
    }

    #[test]
    fn a_barrier_makes_the_result_independent_of_the_order() {
        for order in ORDERS {
            assert_eq!(read_neighbour(order, true), [1, 2, 3, 4, 5, 6, 7, 0], "{order:?}");
        }
    }

    #[test]
    fn a_missing_barrier_shows() {
        assert_ne!(read_neighbour(Order::Forward, false), read_neighbour(Order::Reverse, false));
    }

    #[test]
    fn a_divergent_barrier_is_reported() {
        for order in ORDERS {
            let message = panic_message(|| {
                // SAFETY: the kernel touches no memory.
                unsafe {
                    launch(&geometry([1, 1, 1], [4, 1, 1], 0, order), || {
                        if thread_idx_x() < 3 {
                            sync_threads();
                        }
                    });
                }
            });
            assert_eq!(
                message,
                "divergent barrier: 3 threads of a block wait at sync_threads, 1 left the kernel"
            );
        }
    }

    #[test]
    fn shared_memory_is_checked_and_starts_as_garbage() {
        let run = |kernel: &dyn Fn()| {
            // SAFETY: the emulator checks the accesses.
            unsafe { launch(&geometry([1, 1, 1], [1, 1, 1], 24, Order::Forward), kernel) }
        };
        // SAFETY: inside; the others are what the emulator must refuse.
        run(&|| assert_eq!(unsafe { SharedMem::<u64>::dynamic(0).read(2) }, 0xA5A5_A5A5_A5A5_A5A5));
        // SAFETY: refused by the emulator before anything is read.
        let message = panic_message(|| run(&|| _ = unsafe { SharedMem::<u64>::dynamic(0).read(3) }));
        assert_eq!(message, "shared memory accessed out of bounds: bytes 24..32 of 24");
        // SAFETY: refused by the emulator before anything is written.
        let message = panic_message(|| run(&|| unsafe { SharedMem::<u64>::dynamic(4).write(0, 1) }));
        assert_eq!(message, "misaligned access of shared memory: 8 bytes at 4");
    }

    #[test]
    fn device_functions_need_a_launch() {
        assert!(panic_message(|| _ = thread_idx_x()).contains("outside of a kernel launch"));
        assert!(panic_message(sync_threads).contains("outside of a kernel launch"));
    }
}
