//! Element types.

use meshsolve_kernels::launch::{ElementSize, RealType};
use serde::{Deserialize, Serialize};

/// The element types that the routines accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// Real, 4 bytes.
    F32,
    /// Real, 8 bytes.
    F64,
    /// Complex of two f32.
    C64,
    /// Complex of two f64.
    C128,
    /// Signed 32-bit integer: status words and rank operands, never matrices.
    I32,
}

impl DType {
    /// The matrix element types.
    pub const ALL: [DType; 4] = [DType::F32, DType::F64, DType::C64, DType::C128];

    /// The name that NumPy and JAX users know it by.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
            DType::I32 => "int32",
        }
    }

    /// Bytes of one element.
    pub const fn size(self) -> u64 {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The real type of the same precision.
    pub const fn real(self) -> DType {
        match self {
            DType::F32 | DType::C64 => DType::F32,
            DType::F64 | DType::C128 => DType::F64,
            DType::I32 => DType::I32,
        }
    }

    /// Real numbers in one element: 2 for complex types.
    pub const fn parts(self) -> u32 {
        match self {
            DType::C64 | DType::C128 => 2,
            _ => 1,
        }
    }

    /// The bits of `value` + 0i, low word first, as the kernels take element values.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what the type asks for")]
    pub fn bits(self, value: f64) -> [u64; 2] {
        match self {
            DType::F32 | DType::C64 => [u64::from((value as f32).to_bits()), 0],
            DType::F64 | DType::C128 => [value.to_bits(), 0],
            DType::I32 => [u64::from((value as i32).cast_unsigned()), 0],
        }
    }

    /// The bits of NaN in every part, low word first.
    pub const fn nan_bits(self) -> [u64; 2] {
        let (single, double) = (f32::NAN.to_bits() as u64, f64::NAN.to_bits());
        match self {
            DType::F32 => [single, 0],
            DType::C64 => [single << 32 | single, 0],
            DType::F64 => [double, 0],
            DType::C128 => [double, double],
            DType::I32 => [0, 0],
        }
    }

    /// The size of an element as the kernels move it.
    pub const fn element_size(self) -> ElementSize {
        match self {
            DType::F32 | DType::I32 => ElementSize::B4,
            DType::F64 | DType::C64 => ElementSize::B8,
            DType::C128 => ElementSize::B16,
        }
    }

    /// The real type that the kernels calculate with.
    pub const fn real_type(self) -> RealType {
        match self.real() {
            DType::F64 => RealType::F64,
            _ => RealType::F32,
        }
    }
}
