//! The logarithm of a determinant.

use super::carrier::Real;
use crate::args::{DiagLogSumArgs, ScaleToArgs};
use crate::launch::THREADS;
use crate::log_sum::ln_abs;
use cuda_std::shared::SharedMem;
use cuda_std::thread::{sync_threads, thread_idx_x};

/// See [`DiagLogSumArgs`]; the order is that of [`crate::log_sum::sum_in_kernel_order`].
#[inline(always)]
pub(crate) unsafe fn diag_log_sum<R: Real>(args: &DiagLogSumArgs) {
    let buf = args.buf as *const R;
    let partial = SharedMem::<u64>::dynamic(0);
    let t = thread_idx_x();
    let mut sum = 0.0;
    let mut i = u64::from(t);
    while i < args.rows {
        let global = args.row_map.map(i).filter(|&global| global < args.n);
        let column = global.and_then(|global| args.col_map.unmap(global)).filter(|&j| j < args.cols);
        if let Some(j) = column {
            // SAFETY: a local element is inside the matrix; its real part comes first.
            let value = unsafe { *buf.add(((i + j * args.ld) * args.parts) as usize) };
            sum += ln_abs(value.to_f64());
        }
        i += u64::from(THREADS);
    }
    // SAFETY: a thread writes its own element, and reads another's only after a barrier.
    unsafe {
        partial.write(t, sum.to_bits());
        let mut half = THREADS / 2;
        while half > 0 {
            sync_threads();
            if t < half {
                sum += f64::from_bits(partial.read(t + half));
                partial.write(t, sum.to_bits());
            }
            half /= 2;
        }
        if t == 0 {
            *(args.out as *mut f64) = sum;
        }
    }
}

/// See [`ScaleToArgs`].
#[inline(always)]
pub(crate) unsafe fn scale_to<R: Real>(args: &ScaleToArgs) {
    // SAFETY: both addresses are valid by the arguments' contract.
    unsafe { *(args.dst as *mut R) = R::from_f64(args.scale * *(args.src as *const f64)) };
}
