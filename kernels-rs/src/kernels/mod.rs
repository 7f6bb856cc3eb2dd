//! The kernels: one table of entry points over generic bodies.
//!
//! Rules for the bodies: indices are u64 (within a tile u32), every loop over work strides by the grid,
//! nothing can panic (no slices, no plain division by a variable), everything is inlined, and a barrier
//! is reached by all threads of a block or by none.

#[cfg(any(target_os = "cuda", feature = "emulator"))]
use crate::args::*;

#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod carrier;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod chain;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod checks;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod convert;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod diagonal;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod in_place;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod padding;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod pivots;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod reduce;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod slabs;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod spectrum;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod tile;
#[cfg(any(target_os = "cuda", feature = "emulator"))]
mod work;

/// Defines the entry points, the list of their names and, for the emulator, their lookup by name.
macro_rules! kernels {
    ($($name:ident($args:ty) = $body:expr;)*) => {
        /// The names of all entry points in the PTX.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        #[cfg(any(target_os = "cuda", feature = "emulator"))]
        mod entries {
            use super::*;
            use cuda_std::kernel;
            $(
                #[kernel]
                #[allow(clippy::missing_safety_doc, improper_ctypes_definitions)]
                pub unsafe fn $name(args: $args) {
                    // SAFETY: whoever launches the kernel vouches for its arguments.
                    unsafe { ($body)(&args) }
                }
            )*
        }

        #[cfg(all(feature = "emulator", not(target_os = "cuda")))]
        impl crate::emulator::Entry {
            /// The entry point of this name.
            pub(crate) fn find(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::new::<$args>(|args| {
                        // SAFETY: whoever launches the kernel vouches for its arguments.
                        unsafe { entries::$name(bytemuck::pod_read_unaligned(args)) }
                    })),)*
                    _ => None,
                }
            }
        }
    };
}

kernels! {
    convert_forward_b4(ConvertArgs) = convert::forward::<u32, 64>;
    convert_forward_b8(ConvertArgs) = convert::forward::<u64, 32>;
    convert_forward_b16(ConvertArgs) = convert::forward::<u128, 32>;
    convert_reverse_b4(ConvertArgs) = convert::reverse::<u32, 64>;
    convert_reverse_b8(ConvertArgs) = convert::reverse::<u64, 32>;
    convert_reverse_b16(ConvertArgs) = convert::reverse::<u128, 32>;
    transpose_blocks_b4(TransposeBlocksArgs) = in_place::transpose_blocks::<u32, 64>;
    transpose_blocks_b8(TransposeBlocksArgs) = in_place::transpose_blocks::<u64, 32>;
    transpose_blocks_b16(TransposeBlocksArgs) = in_place::transpose_blocks::<u128, 32>;
    move_segments_b4(MoveSegmentsArgs) = in_place::move_segments::<u32>;
    move_segments_b8(MoveSegmentsArgs) = in_place::move_segments::<u64>;
    move_segments_b16(MoveSegmentsArgs) = in_place::move_segments::<u128>;
    copy_lines_b4(CopyLinesArgs) = slabs::copy_lines::<u32>;
    copy_lines_b8(CopyLinesArgs) = slabs::copy_lines::<u64>;
    copy_lines_b16(CopyLinesArgs) = slabs::copy_lines::<u128>;
    permute_slots_b4(PermuteSlotsArgs) = slabs::permute_slots::<u32>;
    permute_slots_b8(PermuteSlotsArgs) = slabs::permute_slots::<u64>;
    permute_slots_b16(PermuteSlotsArgs) = slabs::permute_slots::<u128>;
    set_identity_b4(SetIdentityArgs) = padding::set_identity::<u32>;
    set_identity_b8(SetIdentityArgs) = padding::set_identity::<u64>;
    set_identity_b16(SetIdentityArgs) = padding::set_identity::<u128>;
    clear_other_triangle_b4(ClearOtherTriangleArgs) = padding::clear_other_triangle::<u32>;
    clear_other_triangle_b8(ClearOtherTriangleArgs) = padding::clear_other_triangle::<u64>;
    clear_other_triangle_b16(ClearOtherTriangleArgs) = padding::clear_other_triangle::<u128>;
    fill_b4(FillArgs) = padding::fill::<u32>;
    fill_b8(FillArgs) = padding::fill::<u64>;
    fill_b16(FillArgs) = padding::fill::<u128>;
    conjugate_f32(ConjugateArgs) = padding::conjugate::<f32>;
    conjugate_f64(ConjugateArgs) = padding::conjugate::<f64>;
    find_non_finite_f32(FindNonFiniteArgs) = checks::find_non_finite::<f32>;
    find_non_finite_f64(FindNonFiniteArgs) = checks::find_non_finite::<f64>;
    find_non_finite_anywhere_f32(FindAnywhereArgs) = checks::find_non_finite_anywhere::<f32>;
    find_non_finite_anywhere_f64(FindAnywhereArgs) = checks::find_non_finite_anywhere::<f64>;
    add_to_diagonal_f32(AddToDiagonalArgs) = diagonal::add_to::<f32>;
    add_to_diagonal_f64(AddToDiagonalArgs) = diagonal::add_to::<f64>;
    make_diagonal_real_f32(MakeDiagonalRealArgs) = diagonal::make_real::<f32>;
    make_diagonal_real_f64(MakeDiagonalRealArgs) = diagonal::make_real::<f64>;
    find_zero_diagonal_f32(FindZeroDiagonalArgs) = diagonal::find_zero::<f32>;
    find_zero_diagonal_f64(FindZeroDiagonalArgs) = diagonal::find_zero::<f64>;
    diag_log_sum_f32(DiagLogSumArgs) = diagonal::log_sum::<f32>;
    diag_log_sum_f64(DiagLogSumArgs) = diagonal::log_sum::<f64>;
    diag_phase_f32(DiagPhaseArgs) = diagonal::phase::<f32>;
    diag_phase_f64(DiagPhaseArgs) = diagonal::phase::<f64>;
    phase_to_f32(PhaseToArgs) = diagonal::phase_to::<f32>;
    phase_to_f64(PhaseToArgs) = diagonal::phase_to::<f64>;
    scale_to_f32(ScaleToArgs) = diagonal::scale_to::<f32>;
    scale_to_f64(ScaleToArgs) = diagonal::scale_to::<f64>;
    apply_pseudoinverse_f32(ApplyPseudoinverseArgs) = spectrum::apply_pseudoinverse::<f32>;
    apply_pseudoinverse_f64(ApplyPseudoinverseArgs) = spectrum::apply_pseudoinverse::<f64>;
    combine_status(CombineStatusArgs) = checks::combine_status;
    spread_pivots(SpreadPivotsArgs) = pivots::spread;
    places_of_pivots(PlacesOfPivotsArgs) = pivots::places_of;
    gather_rows_b4(GatherRowsArgs) = pivots::gather_rows::<u32>;
    gather_rows_b8(GatherRowsArgs) = pivots::gather_rows::<u64>;
    gather_rows_b16(GatherRowsArgs) = pivots::gather_rows::<u128>;
}
