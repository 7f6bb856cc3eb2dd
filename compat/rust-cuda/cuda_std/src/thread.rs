//! Where a thread stands in its launch, and the barrier of its block.

#[cfg(target_os = "cuda")]
use core::arch::nvptx;

macro_rules! position {
    ($($name:ident = $intrinsic:ident, $field:ident[$axis:literal], $what:literal;)*) => {$(
        #[doc = $what]
        #[inline(always)]
        pub fn $name() -> u32 {
            #[cfg(target_os = "cuda")]
            // SAFETY: reads a special register.
            return unsafe { nvptx::$intrinsic() } as u32;
            #[cfg(not(target_os = "cuda"))]
            return crate::emulator::position().$field[$axis];
        }
    )*};
}

position! {
    thread_idx_x = _thread_idx_x, thread[0], "Thread in its block, x.";
    thread_idx_y = _thread_idx_y, thread[1], "Thread in its block, y.";
    thread_idx_z = _thread_idx_z, thread[2], "Thread in its block, z.";
    block_idx_x = _block_idx_x, block[0], "Block in the grid, x.";
    block_idx_y = _block_idx_y, block[1], "Block in the grid, y.";
    block_idx_z = _block_idx_z, block[2], "Block in the grid, z.";
    block_dim_x = _block_dim_x, block_dim[0], "Threads in a block, x.";
    block_dim_y = _block_dim_y, block_dim[1], "Threads in a block, y.";
    block_dim_z = _block_dim_z, block_dim[2], "Threads in a block, z.";
    grid_dim_x = _grid_dim_x, grid_dim[0], "Blocks in the grid, x.";
    grid_dim_y = _grid_dim_y, grid_dim[1], "Blocks in the grid, y.";
    grid_dim_z = _grid_dim_z, grid_dim[2], "Blocks in the grid, z.";
}

/// Waits until every thread of the block is here; writes before it are seen after it.
///
/// All threads of a block must reach the same number of barriers.
#[inline(always)]
pub fn sync_threads() {
    #[cfg(target_os = "cuda")]
    // SAFETY: the barrier has no precondition beyond the one stated above.
    unsafe {
        nvptx::_syncthreads()
    };
    #[cfg(not(target_os = "cuda"))]
    crate::emulator::barrier();
}
