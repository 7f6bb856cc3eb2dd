//! Kernels on the GPU with positions of elements that need 32 bits. No host loops and no emulator: the
//! expected word follows from its position.

use crate::gpu;
use crate::view;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;
use meshsolve::DType;
use meshsolve::device::{Buffer, Device, InPlace, IndexMap, Permutation, Triangle};

/// Words of each of the two large buffers.
const WORDS: usize = (1 << 31) + (1 << 16);
/// What the result's buffer holds where no operation wrote.
const BLANK: u32 = u32::MAX;
/// Words that are looked at in one go.
const RUN: usize = 1 << 12;

/// The word at a place of the source. The factor is odd: words differ from place to place.
fn word(place: usize) -> u32 {
    (place as u32).wrapping_mul(0x9E37_79B1)
}

/// Two buffers on the GPU.
struct Large<'a> {
    device: &'a dyn Device,
    stream: &'a Stream,
    /// The [`word`] of each place. Nothing writes to it.
    source: DeviceBuffer<u32>,
    /// The operation's result.
    result: DeviceBuffer<u32>,
}

impl<'a> Large<'a> {
    fn new(device: &'a dyn Device, stream: &'a Stream) -> Self {
        const CHUNK: usize = 1 << 24;
        // SAFETY: every word of both is written before it is read.
        let (source, result) = unsafe {
            (DeviceBuffer::uninitialized(WORDS).unwrap(), DeviceBuffer::uninitialized(WORDS).unwrap())
        };
        for start in (0..WORDS).step_by(CHUNK) {
            let words: Vec<u32> = (start..WORDS.min(start + CHUNK)).map(word).collect();
            source.index(start..start + words.len()).copy_from(&words).unwrap();
        }
        Self { device, stream, source, result }
    }

    /// The source from word `offset` on.
    fn source(&self, offset: u64) -> Buffer {
        from_word(offset, &self.source)
    }

    /// The result from word `offset` on.
    fn result(&self, offset: u64) -> Buffer {
        from_word(offset, &self.result)
    }

    /// Runs an operation on a result that is blank before.
    fn on_blank(&mut self, operate: impl FnOnce(&Self)) {
        self.result.set_32(BLANK).unwrap();
        self.run(operate);
    }

    /// Runs an operation on a result that is the source before.
    fn on_copy(&mut self, operate: impl FnOnce(&Self)) {
        self.result.copy_from(&self.source).unwrap();
        self.run(operate);
    }

    fn run(&self, operate: impl FnOnce(&Self)) {
        gpu::finish_uploads();
        operate(self);
        self.stream.synchronize().unwrap();
    }

    /// Compares the result with what is expected at each place: in runs all over the buffer at distances
    /// that share no factor with the matrices, at both its ends, and where positions leave 31 bits.
    fn expect(&self, what: &str, expected: impl Fn(usize) -> u32) {
        let last = WORDS - RUN;
        let mut words = vec![0; RUN];
        for start in (0..last).step_by(1_000_003).chain([last, (1 << 31) - RUN / 2]) {
            self.result.index(start..start + RUN).copy_to(&mut words).unwrap();
            for (place, &found) in (start..).zip(&words) {
                let expected = expected(place);
                assert_eq!(found, expected, "{what}: word {place}; the source's is {:#x}", word(place));
            }
        }
    }
}

fn from_word(offset: u64, memory: &DeviceBuffer<u32>) -> Buffer {
    let window = gpu::window(memory);
    window.slice(4 * offset, window.bytes() - 4 * offset)
}

/// The element (line, position in the line) at a place of a matrix that starts `offset` words into memory,
/// if one is there.
fn element(place: usize, offset: u64, ld: u64, lines: u64, len: u64) -> Option<(usize, usize)> {
    let place = place.checked_sub(offset as usize)?;
    let (line, at) = (place / ld as usize, place % ld as usize);
    (line < lines as usize && at < len as usize).then_some((line, at))
}

/// A map of local indices from `first` on, up to `limit` in all.
fn from_first(first: u64, limit: u64) -> IndexMap {
    IndexMap { first, ..IndexMap::identity(limit) }
}

#[test]
fn every_kernel_with_more_than_two_to_the_31_elements() {
    if !gpu::is_wanted() {
        eprintln!("skipped: needs a GPU with 18 GB free and MESHSOLVE_TEST_GPU=1");
        return;
    }
    gpu::with_device(|device, stream| {
        let mut large = Large::new(device, stream);
        // Rows, columns, words before the matrices, leading dimensions by rows and by columns.
        conversions(&mut large, [64, 33_554_496], 0, [33_554_500, 64]);
        conversions(&mut large, [33_554_496, 64], 0, [64, 33_554_500]);
        conversions(&mut large, [3, 715_827_885], 1, [715_827_887, 3]);
        conversions(&mut large, [715_827_885, 3], 3, [3, 715_827_889]);
        // Segments of 16 bytes and more, and of 24 bytes at odd addresses.
        conversion_in_place(&mut large, [64, 33_554_496], 0);
        conversion_in_place(&mut large, [33_554_496, 64], 0);
        conversion_in_place(&mut large, [6, 357_913_944], 1);
        conversion_in_place(&mut large, [357_913_944, 6], 3);
        // Elements, lines, words before them and distances of lines on both sides.
        copies_of_lines(&mut large, [(1 << 30) + 4, 2], 0, [(1 << 30) + 8, (1 << 30) + 12]);
        copies_of_lines(&mut large, [(1 << 30) + 1, 2], 1, [(1 << 30) + 5, (1 << 30) + 3]);
        copies_of_lines(&mut large, [2, 715_827_885], 3, [3, 3]);
        permutations_of_rows(&mut large, [4, 536_870_917], 1, &[3, 0, 1, 2]);
        permutations_of_rows(&mut large, [3, 2], 357_913_943, &[2, 0, 1]);
        permutations_of_rows(&mut large, [4, 4], 134_217_730, &[1, 0, 3, 2]);
        permutation_of_columns(&mut large, 1024, [3, 699_051], &[1, 2, 0]);
        identity(&mut large, [3, 715_827_885], 1);
        identity(&mut large, [715_827_885, 3], 0);
        fill(&mut large, 1, (1 << 31) + 3);
        fill(&mut large, 0, (1 << 31) + 4);
        conjugate(&mut large, 2, (1 << 30) + 3);
        search_for_non_finite_elements(&mut large, [3, 715_827_885], 0);
        search_for_non_finite_elements(&mut large, [715_827_885, 3], 1);
        cleared_triangle(&mut large, [3, 715_827_885], 1, Triangle::Upper);
        cleared_triangle(&mut large, [715_827_885, 3], 0, Triangle::Lower);
        gathered_rows(&mut large, [3, 715_827_885], 1);
        gathered_rows(&mut large, [65_536, 32_769], 0);
        scaled_rows(&mut large, [3, 715_827_885], 1);
        scaled_rows(&mut large, [715_827_885, 3], 0);
        diagonal(&mut large, [3, 715_827_885]);
        real_diagonal(&mut large, [3, 357_913_942]);
    });
}

fn conversions(large: &mut Large<'_>, [rows, cols]: [u64; 2], offset: u64, ld: [u64; 2]) {
    let (row_map, col_map) = (IndexMap::identity(rows), IndexMap::identity(cols));
    let [by_rows, by_cols] = ld.map(|ld| move |data: Buffer| view(DType::F32, data, ld, rows, cols));
    let at = |line: usize, x: usize, ld: u64| offset as usize + line * ld as usize + x;
    large.on_blank(|large| {
        let (src, dst) = (by_rows(large.source(offset)), by_cols(large.result(offset)));
        large.device.convert_forward(&src, &dst, row_map, col_map).unwrap();
    });
    large.expect(&format!("{rows} × {cols}, forward"), |place| {
        element(place, offset, ld[1], cols, rows).map_or(BLANK, |(j, i)| word(at(i, j, ld[0])))
    });
    large.on_blank(|large| {
        let (src, dst) = (by_cols(large.source(offset)), by_rows(large.result(offset)));
        large.device.convert_reverse(&src, &dst, row_map, col_map).unwrap();
    });
    large.expect(&format!("{rows} × {cols}, reverse"), |place| {
        element(place, offset, ld[0], rows, cols).map_or(BLANK, |(i, j)| word(at(j, i, ld[1])))
    });
}

fn conversion_in_place(large: &mut Large<'_>, [rows, cols]: [u64; 2], offset: u64) {
    // SAFETY: the conversion writes the scratch before it reads it.
    let scratch = unsafe { DeviceBuffer::<u32>::uninitialized(WORDS / 16) }.unwrap();
    large.on_copy(|large| {
        let (data, scratch) = (large.result(offset), gpu::window(&scratch));
        large.device.convert_in_place(DType::F32, data, &InPlace::new(rows, cols), scratch, None).unwrap();
    });
    large.expect(&format!("{rows} × {cols}, in place"), |place| {
        match element(place, offset, rows, cols, rows) {
            Some((j, i)) => word(offset as usize + i * cols as usize + j),
            None => word(place),
        }
    });
}

fn copies_of_lines(large: &mut Large<'_>, [len, lines]: [u64; 2], offset: u64, ld: [u64; 2]) {
    large.on_blank(|large| {
        let (src, dst) = (large.source(offset), large.result(offset));
        large.device.copy_lines(DType::F32, src, ld[0], dst, ld[1], len, lines).unwrap();
    });
    large.expect(&format!("{lines} lines of {len}"), |place| {
        let from = |(line, x): (usize, usize)| word(offset as usize + line * ld[0] as usize + x);
        element(place, offset, ld[1], lines, len).map_or(BLANK, from)
    });
}

/// Slots of `tile` rows in each of `cols` columns.
fn permutations_of_rows(large: &mut Large<'_>, [slots, tile]: [u64; 2], cols: u64, sources: &[u32]) {
    let rows = slots * tile;
    large.on_copy(|large| {
        let matrix = view(DType::F32, large.result(0), rows, rows, cols);
        large.device.permute_rows(&matrix, tile, &Permutation::from_sources(sources)).unwrap();
    });
    large.expect(&format!("slots of {tile} rows in {cols} columns"), |place| {
        word(element(place, 0, rows, cols, rows).map_or(place, |(j, i)| {
            let (slot, within) = (i / tile as usize, i % tile as usize);
            j * rows as usize + sources[slot] as usize * tile as usize + within
        }))
    });
}

/// Slots of `tile` columns of `rows` rows.
fn permutation_of_columns(large: &mut Large<'_>, rows: u64, [slots, tile]: [u64; 2], sources: &[u32]) {
    let cols = slots * tile;
    large.on_copy(|large| {
        let matrix = view(DType::F32, large.result(0), rows, rows, cols);
        large.device.permute_columns(&matrix, tile, &Permutation::from_sources(sources)).unwrap();
    });
    large.expect(&format!("slots of {tile} columns"), |place| {
        word(element(place, 0, rows, cols, rows).map_or(place, |(j, i)| {
            let (slot, within) = (j / tile as usize, j % tile as usize);
            (sources[slot] as usize * tile as usize + within) * rows as usize + i
        }))
    });
}

/// The last rows and columns of an identity whose diagonal crosses the end of the matrix.
fn identity(large: &mut Large<'_>, [rows, cols]: [u64; 2], offset: u64) {
    let n = rows.max(cols);
    let (row_map, col_map) = (from_first(n - rows, n), from_first(n - cols, n));
    let real = [row_map, col_map].map(|map| IndexMap { limit: n - 2, ..map });
    large.on_copy(|large| {
        let matrix = view(DType::F32, large.result(offset), rows, rows, cols);
        large.device.set_identity(&matrix, row_map, col_map, real, None, None).unwrap();
    });
    large.expect(&format!("{rows} × {cols} of the identity"), |place| {
        let Some((j, i)) = element(place, offset, rows, cols, rows) else { return word(place) };
        let (row, col) = (i as u64 + n - rows, j as u64 + n - cols);
        match (row.max(col) >= n - 2, row == col) {
            (false, _) => word(place),
            (true, on_diagonal) => f32::to_bits(if on_diagonal { 1.0 } else { 0.0 }),
        }
    });
}

/// A complex matrix of few rows, the last of a square one, whose diagonal is its own in the last columns.
fn real_diagonal(large: &mut Large<'_>, [rows, cols]: [u64; 2]) {
    let (row_map, col_map) = (from_first(cols - rows, cols), IndexMap::identity(cols));
    large.on_copy(|large| {
        let matrix = view(DType::C64, large.result(0), rows, rows, cols);
        large.device.make_diagonal_real(&matrix, row_map, col_map).unwrap();
    });
    large.expect("a diagonal made real", |place| {
        let on_diagonal = element(place / 2, 0, rows, cols, rows)
            .is_some_and(|(j, i)| j + rows as usize == i + cols as usize);
        if on_diagonal && place % 2 == 1 { 0 } else { word(place) }
    });
}

fn fill(large: &mut Large<'_>, offset: u64, count: u64) {
    let value = 2.5_f32.to_bits();
    large.on_blank(|large| {
        let data = large.result(offset).slice(0, 4 * count);
        large.device.fill(DType::F32, data, [value.into(), 0], None).unwrap();
    });
    large.expect(&format!("{count} words filled"), |place| {
        if element(place, offset, count, 1, count).is_some() { value } else { BLANK }
    });
}

/// Complex numbers of two words.
fn conjugate(large: &mut Large<'_>, offset: u64, count: u64) {
    let value = 2.5_f32;
    large.result.set_32(value.to_bits()).unwrap();
    large.run(|large| {
        large.device.conjugate(DType::C64, large.result(offset).slice(0, 8 * count)).unwrap();
    });
    large.expect(&format!("{count} conjugates"), |place| {
        let imaginary = element(place, offset, 2, count, 2).is_some_and(|(_, part)| part == 1);
        f32::to_bits(if imaginary { -value } else { value })
    });
}

/// As a matrix and as a buffer.
fn search_for_non_finite_elements(large: &mut Large<'_>, [rows, cols]: [u64; 2], offset: u64) {
    let maps = (IndexMap::identity(rows), IndexMap::identity(cols));
    let last = (offset + rows * cols - 1) as usize;
    large.result.set_32(1.0_f32.to_bits()).unwrap();
    for (place, value, expected) in
        [(last + 1, f32::NAN, 0), (last, f32::INFINITY, 1), (last, 1.0, 0), (1 << 31, f32::NAN, 1)]
    {
        large.result.index(place..place + 1).copy_from(&[value.to_bits()]).unwrap();
        let flags = [0, 0].map(|flag: i32| DeviceBuffer::from_slice(&[flag]).unwrap());
        large.run(|large| {
            let data = large.result(offset).slice(0, 4 * rows * cols);
            let matrix = view(DType::F32, data, rows, rows, cols);
            let [of_matrix, of_buffer] = flags.each_ref().map(gpu::window);
            large.device.find_non_finite(&matrix, maps.0, maps.1, Triangle::Both, of_matrix).unwrap();
            large.device.find_non_finite_anywhere(DType::F32, data, of_buffer).unwrap();
        });
        for flag in &flags {
            let mut found = [-1];
            flag.copy_to(&mut found).unwrap();
            assert_eq!(found, [expected], "{rows} × {cols}: {value} at {place}");
        }
    }
}

/// The last rows and columns of a matrix of which nearly all is outside the triangle.
fn cleared_triangle(large: &mut Large<'_>, [rows, cols]: [u64; 2], offset: u64, kept: Triangle) {
    let n = rows.max(cols);
    let (row_map, col_map) = (from_first(n - rows, n), from_first(n - cols, n));
    large.on_copy(|large| {
        let matrix = view(DType::F32, large.result(offset), rows, rows, cols);
        large.device.clear_other_triangle(&matrix, row_map, col_map, kept).unwrap();
    });
    large.expect(&format!("{kept:?} of {rows} × {cols}"), |place| {
        let Some((j, i)) = element(place, offset, rows, cols, rows) else { return word(place) };
        let (row, col) = (i as u64 + n - rows, j as u64 + n - cols);
        let stays = if kept == Triangle::Lower { row >= col } else { row <= col };
        if stays { word(place) } else { 0 }
    });
}

/// All rows in reverse order.
fn gathered_rows(large: &mut Large<'_>, [rows, cols]: [u64; 2], offset: u64) {
    let sources = DeviceBuffer::from_slice(&(0..rows as i32).rev().collect::<Vec<_>>()).unwrap();
    large.on_blank(|large| {
        let (src, dst) = (large.source(offset), large.result(offset));
        let map = IndexMap::identity(rows);
        large.device.gather_rows(DType::F32, src, dst, cols, gpu::window(&sources), map).unwrap();
    });
    large.expect(&format!("{rows} rows of {cols} in reverse"), |place| {
        element(place, offset, cols, rows, cols)
            .map_or(BLANK, |(line, x)| word(offset as usize + (rows as usize - 1 - line) * cols as usize + x))
    });
}

/// Whatever numbers the source's words make stand in for eigenvalues: only the first and the last of them
/// have to be in order.
fn scaled_rows(large: &mut Large<'_>, [rows, cols]: [u64; 2], offset: u64) {
    let value = 3.0_f32;
    let cutoff = DeviceBuffer::from_slice(&[0.0_f32]).unwrap();
    large.result.set_32(value.to_bits()).unwrap();
    large.run(|large| {
        let matrix = view(DType::F32, large.result(offset), rows, rows, cols);
        let eigenvalues = large.source(offset).slice(0, 4 * rows);
        let map = IndexMap::identity(rows);
        large.device.apply_pseudoinverse(&matrix, map, eigenvalues, gpu::window(&cutoff)).unwrap();
    });
    let eigenvalue = |row: usize| f32::from_bits(word(offset as usize + row));
    assert!(eigenvalue(0).is_finite() && eigenvalue(rows as usize - 1).is_finite(), "all would be cut");
    large.expect(&format!("scaled rows of {rows} × {cols}"), |place| {
        let scaled = |(_, row)| match eigenvalue(row) {
            eigenvalue if eigenvalue.abs() > 0.0 && eigenvalue.is_finite() => value * (1.0 / eigenvalue),
            _ => 0.0,
        };
        element(place, offset, rows, cols, rows).map_or(value, scaled).to_bits()
    });
}

/// The diagonal crosses the last columns.
fn diagonal(large: &mut Large<'_>, [rows, cols]: [u64; 2]) {
    let (row_map, col_map) = (from_first(cols - rows, cols), IndexMap::identity(cols));
    large.result.set_32(3.0_f32.to_bits()).unwrap();
    for (i, value) in [2.0_f32, -5.0, 7.0].into_iter().enumerate() {
        let place = (cols as usize - 3 + i) * rows as usize + i;
        large.result.index(place..place + 1).copy_from(&[value.to_bits()]).unwrap();
    }
    let sums = DeviceBuffer::from_slice(&[f64::NAN; 3]).unwrap();
    let (shift, zero) =
        (DeviceBuffer::from_slice(&[5.0_f32]).unwrap(), DeviceBuffer::from_slice(&[-1_i32]).unwrap());
    large.run(|large| {
        let matrix = view(DType::F32, large.result(0), rows, rows, cols);
        let (sum, phase) = (gpu::window(&sums).slice(0, 8), gpu::window(&sums).slice(8, 16));
        large.device.diag_log_sum(&matrix, row_map, col_map, cols, sum).unwrap();
        large.device.diag_phase(&matrix, row_map, col_map, cols, None, phase).unwrap();
        large.device.add_to_diagonal(&matrix, row_map, col_map, gpu::window(&shift)).unwrap();
        large.device.find_zero_diagonal(&matrix, row_map, col_map, cols, gpu::window(&zero)).unwrap();
    });
    let mut found = [0.0; 3];
    sums.copy_to(&mut found).unwrap();
    let expected = 70_f64.ln();
    assert!((found[0] - expected).abs() < 1e-12, "{} instead of {expected}", found[0]);
    assert_eq!(found[1..], [-70.0 / 64.0, 0.0]);
    let mut word = [-1];
    zero.copy_to(&mut word).unwrap();
    assert_eq!(word, [2], "5 more make the second of the three a zero");
    large.expect("a shifted diagonal", |place| {
        let shifted =
            element(place, 0, rows, cols, rows).filter(|(j, i)| j + rows as usize == i + cols as usize);
        let value = shifted.map_or(3.0_f32, |(_, i)| [7.0, 0.0, 12.0][i]);
        value.to_bits()
    });
}
