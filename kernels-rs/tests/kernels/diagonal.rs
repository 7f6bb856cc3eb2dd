use crate::support::*;
use meshsolve_kernels::args::{
    AddToDiagonalArgs, DiagLogSumArgs, DiagPhaseArgs, Diagonal, FindZeroDiagonalArgs, IndexMap,
    MakeDiagonalRealArgs, PhaseToArgs, ScaleToArgs,
};
use meshsolve_kernels::arithmetic::{combined_in_kernel_order, ln_modulus};
use meshsolve_kernels::emulator::Order;
use meshsolve_kernels::launch::{
    RealType, add_to_diagonal, diag_log_sum, diag_phase, find_zero_diagonal, make_diagonal_real, phase_to,
    scale_to,
};
use std::f64::consts::PI;

/// One device's share of a matrix.
#[derive(Debug)]
struct Share {
    rows: usize,
    cols: usize,
    row_map: IndexMap,
    col_map: IndexMap,
    n: usize,
}

impl Share {
    fn whole(n: usize) -> Self {
        let map = IndexMap::identity(n as u64);
        Self { rows: n, cols: n, row_map: map, col_map: map, n }
    }

    fn ld(&self) -> usize {
        self.rows + 1
    }

    /// The diagonal entries in here: local row and column, and global index; found by comparing all pairs.
    fn entries(&self) -> Vec<(usize, usize, usize)> {
        let (rows, cols) = (dealt(&self.row_map, self.rows), dealt(&self.col_map, self.cols));
        let pairs = rows.iter().enumerate().flat_map(|(i, row)| {
            cols.iter()
                .enumerate()
                .filter(move |(_, col)| row.is_some() && row == *col)
                .map(move |(j, _)| (i, j))
        });
        let global = pairs.map(|(i, j)| (i, j, rows[i].unwrap()));
        global.filter(|(_, _, global)| *global < self.n).collect()
    }

    /// A matrix that is not a number anywhere but on the diagonal, where it is what `value` says of a global
    /// index: as many parts as `PARTS`.
    fn matrix<R: Number, const PARTS: usize>(&self, value: impl Fn(usize) -> [f64; PARTS]) -> Vec<R> {
        let mut matrix = vec![R::of(f64::NAN); self.ld() * self.cols * PARTS];
        for (i, j, global) in self.entries() {
            for (part, value) in value(global).into_iter().enumerate() {
                matrix[(i + j * self.ld()) * PARTS + part] = R::of(value);
            }
        }
        matrix
    }

    fn diagonal(&self, buf: u64, parts: usize) -> Diagonal {
        Diagonal {
            buf,
            ld: self.ld() as u64,
            rows: self.rows as u64,
            cols: self.cols as u64,
            row_map: self.row_map,
            col_map: self.col_map,
            n: self.n as u64,
            parts: parts as u64,
        }
    }
}

/// Shares of all kinds, some without an entry.
fn shares() -> Vec<Share> {
    let cyclic = |r, c, n| Share {
        rows: 700,
        cols: 400,
        row_map: IndexMap::block_cyclic(32, 2, r, 1399),
        col_map: IndexMap::block_cyclic(32, 3, c, 1200),
        n,
    };
    let mut shares: Vec<Share> = [1, 2, 31, 255, 256, 257, 1000].map(Share::whole).into();
    shares.extend([
        cyclic(0, 0, 1000),
        cyclic(1, 2, 1000),
        cyclic(1, 0, 90),
        cyclic(0, 1, 0),
        Share { rows: 0, ..cyclic(0, 0, 1000) },
        Share { cols: 0, ..cyclic(0, 0, 1000) },
    ]);
    // Ragged, moved, offset and read dimensions, and a process that has no rows of its columns.
    for (row_map, col_map) in maps(40).into_iter().zip(maps(40).into_iter().cycle().skip(1)) {
        shares.push(Share { rows: 40, cols: 33, row_map, col_map, n: 100 });
        shares.push(Share { rows: 33, cols: 40, row_map, col_map: row_map, n: 37 });
    }
    assert!(shares.iter().filter(|share| share.entries().is_empty()).count() >= 3);
    shares
}

/// Multiples of 1/8 below 2¹¹ are exact in f32 too.
fn real_entry(global: usize) -> [f64; 1] {
    let sign = if global.is_multiple_of(3) { -1.0 } else { 1.0 };
    [sign * (0.25 + global as f64 * 1.375)]
}

fn complex_entry(global: usize) -> [f64; 2] {
    let im = match global % 4 {
        0 => 0.0,
        1 => -0.125 * global as f64,
        2 => 3.0,
        _ => 2.5 * global as f64,
    };
    [real_entry(global)[0], im]
}

/// A complex number of one or two parts.
fn complex<const PARTS: usize>(parts: [f64; PARTS]) -> [f64; 2] {
    [parts[0], parts.get(1).copied().unwrap_or(0.0)]
}

fn check_add<R: Number, const PARTS: usize>(share: &Share, value: fn(usize) -> [f64; PARTS], order: Order) {
    let shift: Vec<R> = (0..PARTS).map(|part| R::of(0.7 - part as f64)).collect();
    // Numbers that tell their place, so that any other change shows; compared as bits.
    let count = share.ld() * share.cols * PARTS;
    let mut before: Vec<R> = (0..count).map(|at| R::of(at as f64 + 0.1)).collect();
    for (i, j, global) in share.entries() {
        for (part, value) in value(global).into_iter().enumerate() {
            before[(i + j * share.ld()) * PARTS + part] = R::of(value);
        }
    }
    let mut expected = before.clone();
    for (i, j, _) in share.entries() {
        let places = (i + j * share.ld()) * PARTS..;
        places.zip(&shift).for_each(|(at, shift)| expected[at] = before[at] + *shift);
    }
    let (mut buf, mut shift) = (Buffer::new(&before), Buffer::new(&shift));
    let args = AddToDiagonalArgs { diagonal: share.diagonal(buf.address(), PARTS), shift: shift.address() };
    run_on_blocks(add_to_diagonal(R::REAL, args), 1, order);
    assert!(buf.values() == expected, "{:?}, {PARTS} parts, {order:?}, {share:?}", R::REAL);
}

fn check_make_real<R: Number>(share: &Share, order: Order) {
    // Numbers that tell their place, and none of them zero.
    let before: Vec<R> = (0..share.ld() * share.cols * 2).map(|at| R::of(at as f64 + 0.1)).collect();
    let mut expected = before.clone();
    for (i, j, _) in share.entries() {
        expected[(i + j * share.ld()) * 2 + 1] = R::of(0.0);
    }
    let mut buf = Buffer::new(&before);
    let args = MakeDiagonalRealArgs { diagonal: share.diagonal(buf.address(), 2) };
    run_on_blocks(make_diagonal_real(R::REAL, args), 1, order);
    assert!(buf.values() == expected, "{:?}, {order:?}, {share:?}", R::REAL);
}

#[test]
fn imaginary_parts_are_dropped_on_the_diagonal_only() {
    for (share, order) in shares().iter().zip(ORDERS.iter().cycle()) {
        check_make_real::<f32>(share, *order);
        check_make_real::<f64>(share, *order);
    }
}

#[test]
fn a_shift_is_added_to_the_diagonal_only() {
    for (share, order) in shares().iter().zip(ORDERS.iter().cycle()) {
        check_add::<f32, 1>(share, real_entry, *order);
        check_add::<f32, 2>(share, complex_entry, *order);
        check_add::<f64, 1>(share, real_entry, *order);
        check_add::<f64, 2>(share, complex_entry, *order);
    }
}

fn check_zeros<R: Number, const PARTS: usize>(
    share: &Share,
    value: fn(usize) -> [f64; PARTS],
    irregular: &[[f64; PARTS]],
    order: Order,
) {
    let entries: Vec<usize> = share.entries().into_iter().map(|(_, _, global)| global).collect();
    let ask = |matrix: &[R]| {
        let (mut buf, mut word) = (Buffer::new(matrix), Buffer::new(&[-9_i32]));
        let args =
            FindZeroDiagonalArgs { diagonal: share.diagonal(buf.address(), PARTS), word: word.address() };
        run(find_zero_diagonal(R::REAL, args), order);
        word.values()[0]
    };
    assert_eq!(ask(&share.matrix(value)), 0, "{:?}, {order:?}, {share:?}", R::REAL);
    for (at, &irregular) in irregular.iter().enumerate() {
        let Some(first) = entries.get(entries.len() * (at + 1) / (irregular.len() + irregular.len() + 2))
        else {
            continue;
        };
        // Every third entry is irregular from there on.
        let is_irregular = |global: usize| global >= *first && (global - first).is_multiple_of(3);
        let matrix = share.matrix(|global| if is_irregular(global) { irregular } else { value(global) });
        let smallest = entries.iter().copied().filter(|&global| is_irregular(global)).min().unwrap();
        assert_eq!(ask(&matrix), (share.n - smallest) as i32, "{irregular:?}, {order:?}, {share:?}");
    }
}

#[test]
fn the_first_zero_of_the_diagonal_is_found() {
    const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let real = [[0.0], [-0.0], [BAD[0]], [BAD[1]], [BAD[2]]];
    let complex = [[0.0, 0.0], [-0.0, 0.0], [0.0, -0.0], [1.0, BAD[0]], [BAD[1], 0.0], [0.0, BAD[2]]];
    for (share, order) in shares().iter().zip(ORDERS.iter().cycle()) {
        check_zeros::<f32, 1>(share, real_entry, &real, *order);
        check_zeros::<f64, 1>(share, real_entry, &real, *order);
        check_zeros::<f32, 2>(share, complex_entry, &complex, *order);
        check_zeros::<f64, 2>(share, complex_entry, &complex, *order);
    }
    // A part that is zero makes no zero, and neither does a tiny one.
    let regular = |global: usize| [[0.0, 1e-45], [-1e-45, 0.0]][global % 2];
    check_zeros::<f32, 2>(&Share::whole(300), regular, &complex, Order::Forward);
}

fn check_sum<R: Number, const PARTS: usize>(share: &Share, value: fn(usize) -> [f64; PARTS]) {
    let mut buf = Buffer::new(&share.matrix::<R, PARTS>(value));
    let results = ORDERS.map(|order| {
        let mut out = Buffer::new(&[f64::NAN]);
        let args = DiagLogSumArgs { diagonal: share.diagonal(buf.address(), PARTS), out: out.address() };
        run(diag_log_sum(R::REAL, args), order);
        out.values()[0]
    });
    // The standard library's logarithms, added in another order, say what the sum is …
    let ln = |global| {
        let [re, im] = complex(value(global));
        re.hypot(im).ln()
    };
    let terms: Vec<f64> = share.entries().iter().map(|(_, _, global)| ln(*global)).collect();
    let (expected, scale): (f64, f64) = (terms.iter().sum(), terms.iter().map(|term| term.abs()).sum());
    let error = (results[0] - expected).abs();
    assert!(error <= 1e-14 * scale, "{:?}: {} instead of {expected}", R::REAL, results[0]);
    // … and every order of threads and the host's own sum agree to the last bit.
    let mut of_row = vec![None; share.rows];
    share.entries().iter().for_each(|(i, _, global)| of_row[*i] = Some(ln_modulus(complex(value(*global)))));
    let on_host = combined_in_kernel_order(share.rows as u64, 0.0, |i| of_row[i as usize], |a, b| a + b);
    results.iter().for_each(|result| assert_eq!(result.to_bits(), on_host.to_bits()));
}

#[test]
fn the_diagonal_s_logarithms_are_summed_alike_everywhere() {
    for share in &shares() {
        check_sum::<f32, 1>(share, real_entry);
        check_sum::<f32, 2>(share, complex_entry);
        check_sum::<f64, 1>(share, real_entry);
        check_sum::<f64, 2>(share, complex_entry);
    }
}

#[test]
fn a_zero_on_the_diagonal_gives_minus_infinity() {
    let share = Share::whole(2);
    let mut buf = Buffer::new(&share.matrix::<f64, 1>(|global| [2.0 - 2.0 * global as f64]));
    let mut out = Buffer::new(&[0.0_f64]);
    let args = DiagLogSumArgs { diagonal: share.diagonal(buf.address(), 1), out: out.address() };
    run(diag_log_sum(RealType::F64, args), Order::Forward);
    assert_eq!(out.values(), [f64::NEG_INFINITY]);
}

/// The kernel's product, the same in all orders of threads.
fn phases<R: Number>(share: &Share, matrix: &[R], parts: usize, pivots: Option<&[i64]>) -> [f64; 2] {
    let mut buf = Buffer::new(matrix);
    let mut words = Buffer::new(pivots.unwrap_or_default());
    let results = ORDERS.map(|order| {
        let mut out = Buffer::new(&[-7.0_f64; 2]);
        let args = DiagPhaseArgs {
            diagonal: share.diagonal(buf.address(), parts),
            pivots: pivots.map_or(0, |_| words.address()),
            out: out.address(),
        };
        run(diag_phase(R::REAL, args), order);
        out.values()
    });
    let bits = |result: &[f64]| result.iter().map(|part| part.to_bits()).collect::<Vec<_>>();
    results.iter().for_each(|result| assert_eq!(bits(result), bits(&results[0])));
    [results[0][0], results[0][1]]
}

/// Pivots of which every fifth global column's is another row, and how many are below n.
fn pivots(share: &Share) -> (Vec<i64>, usize) {
    let columns = dealt(&share.col_map, share.cols);
    let is_other = |global: usize| global % 5 == 1;
    let pivots = columns.iter().map(|column| match *column {
        Some(global) if is_other(global) => global as i64 + 3,
        Some(global) => global as i64 + 1,
        None => -44,
    });
    let others = columns.iter().flatten().filter(|&&global| global < share.n && is_other(global)).count();
    (pivots.collect(), others)
}

fn check_phase<R: Number, const PARTS: usize>(share: &Share, value: fn(usize) -> [f64; PARTS]) {
    let matrix = share.matrix::<R, PARTS>(value);
    // Angles added by the standard library; those of real numbers are multiples of π.
    let angles: Vec<f64> = (share.entries().iter())
        .map(|(_, _, global)| complex(value(*global)))
        .map(|[re, im]| im.atan2(re))
        .collect();
    let (words, interchanges) = pivots(share);
    for (pivots, turns) in [(None, 0), (Some(&*words), interchanges)] {
        let [re, im] = phases(share, &matrix, PARTS, pivots);
        let larger = re.abs().max(im.abs());
        assert!((1.0..2.0).contains(&larger), "{re}, {im}");
        let angle = angles.iter().sum::<f64>() + PI * turns as f64;
        let (re, im) = (re / re.hypot(im), im / re.hypot(im));
        let error = (re - angle.cos()).abs() + (im - angle.sin()).abs();
        assert!(error < 1e-11, "{re} + {im}i instead of {} + {}i, {share:?}", angle.cos(), angle.sin());
        if PARTS == 1 {
            let negative = angles.iter().filter(|&&angle| angle != 0.0).count() + turns;
            assert_eq!([re, im], [if negative.is_multiple_of(2) { 1.0 } else { -1.0 }, 0.0], "{share:?}");
        }
    }
}

#[test]
fn the_phase_of_the_diagonal() {
    let shares = shares();
    for share in &shares {
        check_phase::<f32, 1>(share, real_entry);
        check_phase::<f32, 2>(share, complex_entry);
        check_phase::<f64, 1>(share, real_entry);
        check_phase::<f64, 2>(share, complex_entry);
    }
    assert!(shares.iter().any(|share| pivots(share).1 % 2 == 1), "no product was negated");
    // Moduli whose product no exponent can hold, and numbers below the normal ones.
    check_phase::<f64, 2>(&Share::whole(600), |global| {
        let modulus = [1e300, 1e-300, 5e-324, 1e308][global / 3 % 4];
        [[modulus, 0.0], [0.0, modulus], [-modulus, modulus]][global % 3]
    });
}

#[test]
fn the_phase_of_no_entry_is_one_and_of_special_values_they_stay() {
    let empty = Share::whole(0);
    assert_eq!(phases::<f64>(&empty, &[], 1, None), [1.0, 0.0]);
    assert_eq!(phases::<f32>(&empty, &[], 2, Some(&[])), [1.0, 0.0]);
    let share = Share::whole(300);
    for place in [0, 17, 255, 256, 299] {
        let with = |special: [f64; 2]| {
            let value = |global| if global == place { special } else { complex_entry(global) };
            phases::<f64>(&share, &share.matrix(value), 2, None)
        };
        assert_eq!(with([0.0, -0.0]), [0.0, 0.0]);
        for special in [[f64::NAN, 1.0], [0.0, f64::NAN], [f64::INFINITY, 0.0]] {
            assert!(with(special).iter().all(|part| part.is_nan()), "{special:?} at {place}");
        }
    }
}

/// The phase of a product as `R` of so many parts.
fn combined_phase<R: Number>(pairs: &[[f64; 2]], parts: usize) -> Vec<R> {
    let (mut src, mut dst) = (Buffer::new(pairs), Buffer::new(&vec![R::of(-7.0); parts]));
    let args = PhaseToArgs {
        src: src.address(),
        dst: dst.address(),
        count: pairs.len() as u64,
        parts: parts as u64,
    };
    run(phase_to(R::REAL, args), Order::Forward);
    dst.values()
}

#[test]
fn phases_of_all_devices_make_one() {
    assert_eq!(combined_phase::<f64>(&[], 2), [1.0, 0.0]);
    for signs in [vec![1.5], vec![-1.0], vec![-1.25, 1.0, -1.99], vec![1.0, -1e300, 1e-300, 1e300]] {
        let pairs: Vec<[f64; 2]> = signs.iter().map(|&re| [re, 0.0]).collect();
        let sign: f64 = signs.iter().map(|re| re.signum()).product();
        assert_eq!(combined_phase::<f64>(&pairs, 1), [sign]);
        assert_eq!(combined_phase::<f32>(&pairs, 1), [sign as f32]);
        assert_eq!(combined_phase::<f64>(&pairs, 2), [sign, 0.0]);
        assert_eq!(combined_phase::<f32>(&pairs, 2), [sign as f32, 0.0]);
        for (special, at) in [(0.0, 0), (-0.0, signs.len()), (f64::NAN, 0), (f64::INFINITY, signs.len())] {
            let mut pairs = pairs.clone();
            pairs.insert(at, [special, 0.0]);
            for part in [combined_phase::<f64>(&pairs, 1), combined_phase::<f64>(&pairs, 2)].concat() {
                assert!(if special == 0.0 { part == 0.0 } else { part.is_nan() }, "{special} gives {part}");
            }
            assert_eq!(combined_phase::<f32>(&pairs, 2)[1].is_nan(), special != 0.0);
        }
    }
    for count in 1..40 {
        let angle = |k: usize| 0.37 * (k * k) as f64 + 0.1;
        let pairs: Vec<[f64; 2]> = (0..count)
            .map(|k| [angle(k).cos() * 2.0_f64.powi(k as i32), angle(k).sin() * 2.0_f64.powi(k as i32)])
            .collect();
        let sum: f64 = (0..count).map(angle).sum();
        let double = combined_phase::<f64>(&pairs, 2);
        let tolerance = 1e-15 * (count as f64 + sum);
        assert!((double[0] - sum.cos()).abs() < tolerance && (double[1] - sum.sin()).abs() < tolerance);
        assert!((double[0].hypot(double[1]) - 1.0).abs() <= 2.0 * f64::EPSILON, "{double:?}");
        assert_eq!(combined_phase::<f32>(&pairs, 2), [double[0] as f32, double[1] as f32]);
    }
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
