use crate::support::*;
use bytemuck::Pod;
use meshsolve_kernels::args::{DiagLogSumArgs, IndexMap, ScaleToArgs};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{RealType, diag_log_sum, scale_to};
use meshsolve_kernels::log_sum::{ln_abs, sum_in_kernel_order};

/// One device's share of a matrix whose diagonal entry g is `diagonal(g)`.
struct Share {
    rows: usize,
    cols: usize,
    row_map: IndexMap,
    col_map: IndexMap,
    n: usize,
}

fn diagonal(global: usize) -> f64 {
    let sign = if global.is_multiple_of(3) { -1.0 } else { 1.0 };
    sign * (0.25 + global as f64 * 1.375)
}

fn check<R: Pod>(real: RealType, parts: usize, share: &Share, convert: fn(f64) -> R) {
    let ld = share.rows + 1;
    let (rows, cols) = (dealt(&share.row_map, share.rows), dealt(&share.col_map, share.cols));
    // Everything but the real parts of the diagonal would spoil the sum.
    let mut matrix = vec![convert(f64::NAN); ld * share.cols * parts];
    let mut of_row: Vec<Option<usize>> = vec![None; share.rows];
    for (i, row) in rows.iter().enumerate() {
        for (j, col) in cols.iter().enumerate() {
            if let Some(global) = row.filter(|row| Some(*row) == *col && *row < share.n) {
                matrix[(i + j * ld) * parts] = convert(diagonal(global));
                of_row[i] = Some(global);
            }
        }
    }
    let mut buf = Buffer::new(&matrix);
    let mut results = ORDERS.map(|order| {
        let mut out = Buffer::new(&[f64::NAN]);
        let args = DiagLogSumArgs {
            buf: buf.address(),
            out: out.address(),
            ld: ld as u64,
            rows: share.rows as u64,
            cols: share.cols as u64,
            row_map: share.row_map,
            col_map: share.col_map,
            n: share.n as u64,
            parts: parts as u64,
        };
        run(diag_log_sum(real, args), order);
        out.values()[0]
    });
    // The standard library's logarithms, added in another order, say what the sum is …
    let expected: f64 = of_row.iter().flatten().map(|global| diagonal(*global).abs().ln()).sum();
    let scale: f64 = of_row.iter().flatten().map(|global| diagonal(*global).abs().ln().abs()).sum();
    let error = (results[0] - expected).abs();
    assert!(error <= 1e-14 * scale, "{real:?}: {} instead of {expected}", results[0]);
    // … and every order of threads and the host's own sum agree to the last bit.
    let on_host =
        sum_in_kernel_order(share.rows as u64, |i| of_row[i as usize].map(|global| ln_abs(diagonal(global))));
    results.iter_mut().for_each(|result| assert_eq!(result.to_bits(), on_host.to_bits()));
}

#[test]
fn the_diagonal_s_logarithms_are_summed_alike_everywhere() {
    let whole = |n| Share {
        rows: n,
        cols: n,
        row_map: IndexMap::identity(n as u64),
        col_map: IndexMap::identity(n as u64),
        n,
    };
    let cyclic = |r, c, n| Share {
        rows: 700,
        cols: 400,
        row_map: IndexMap::block_cyclic(32, 2, r, 1399),
        col_map: IndexMap::block_cyclic(32, 3, c, 1200),
        n,
    };
    let shares = [
        whole(1),
        whole(255),
        whole(256),
        whole(257),
        whole(1000),
        cyclic(0, 0, 1000),
        cyclic(1, 2, 1000),
        cyclic(1, 0, 90),
        cyclic(0, 1, 0),
    ];
    for share in &shares {
        // Multiples of 1/8 below 2¹¹ are exact in f32 too.
        check(RealType::F32, 1, share, |x| x as f32);
        check(RealType::F32, 2, share, |x| x as f32);
        check(RealType::F64, 1, share, |x| x);
        check(RealType::F64, 2, share, |x| x);
    }
}

#[test]
fn a_zero_on_the_diagonal_gives_minus_infinity() {
    let (mut buf, mut out) = (Buffer::new(&[2.0_f64, 0.0, 0.0, 0.0]), Buffer::new(&[0.0_f64]));
    let map = IndexMap::identity(2);
    let (buf, out_at) = (buf.address(), out.address());
    let args = DiagLogSumArgs {
        buf,
        out: out_at,
        ld: 2,
        rows: 2,
        cols: 2,
        row_map: map,
        col_map: map,
        n: 2,
        parts: 1,
    };
    run(diag_log_sum(RealType::F64, args), Order::Forward);
    assert_eq!(out.values(), [f64::NEG_INFINITY]);
}

#[test]
fn a_scalar_is_scaled_and_rounded_once() {
    for (value, scale) in [(1.5, 2.0), (0.1, 3.0), (-1e300, 1.0), (1e-50, 1.0), (f64::INFINITY, 2.0)] {
        let mut src = Buffer::new(&[value]);
        let (mut single, mut double) = (Buffer::new(&[0.0_f32]), Buffer::new(&[0.0_f64]));
        let src = src.address();
        run(scale_to(RealType::F32, ScaleToArgs { src, dst: single.address(), scale }), Order::Forward);
        run(scale_to(RealType::F64, ScaleToArgs { src, dst: double.address(), scale }), Order::Forward);
        assert_eq!(single.values(), [(value * scale) as f32]);
        assert_eq!(double.values(), [value * scale]);
    }
}
