//! The operands and results of a call, checked against the plan.

use std::ffi::c_int;

use meshsolve::DType;
use meshsolve::device::Buffer;
use meshsolve::plan::OperandSpec;
use meshsolve::simulate::RankOperands;

use crate::call::Operand;
use crate::failure::Failure;
use crate::routine::Routine;
use crate::sys::data_type;

/// A copy that XLA would have made if the alias of an output had been declared to it.
pub struct MissingCopy {
    /// The input.
    pub from: Buffer,
    /// The output that is to share its memory.
    pub to: Buffer,
}

/// The memory of one rank, if it is what the plan wants, and the copies to make first.
///
/// # Errors
/// The number, type or shape of operands or results differs from the plan's.
///
/// # Safety
/// The buffers may be used only while XLA keeps the memory of the call valid.
pub unsafe fn checked(
    routine: &dyn Routine,
    operands: &[Operand],
    results: &[Operand],
) -> Result<(RankOperands, Vec<MissingCopy>), Failure> {
    check("operand", 1, routine.inputs(), operands)?;
    check("result", 0, routine.outputs(), results)?;
    let buffers = |specs: &[OperandSpec], operands: &[Operand]| -> Vec<Buffer> {
        let windows = specs.iter().zip(operands);
        // SAFETY: the memory is valid by this function's contract and as long as the plan says, which
        // was just checked.
        windows.map(|(spec, operand)| unsafe { Buffer::from_raw(operand.data, spec.bytes()) }).collect()
    };
    let (inputs, outputs) = (buffers(routine.inputs(), operands), buffers(routine.outputs(), results));
    let copies = routine.outputs().iter().zip(&outputs).filter_map(|(spec, &to)| {
        let from = *spec.alias.and_then(|input| inputs.get(input))?;
        (from.address() != to.address()).then_some(MissingCopy { from, to })
    });
    let copies = copies.collect();
    Ok((RankOperands { inputs, outputs }, copies))
}

fn check(what: &str, first: usize, specs: &[OperandSpec], operands: &[Operand]) -> Result<(), Failure> {
    if operands.len() != specs.len() {
        return Err(Failure::invalid(format!(
            "the call has {} {what}s where the plan has {}: {}",
            operands.len() + first,
            specs.len() + first,
            specs.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ")
        )));
    }
    for (i, (spec, operand)) in specs.iter().zip(operands).enumerate() {
        if operand.dtype != xla_dtype(spec.dtype) || operand.dims != spec.shape {
            return Err(Failure::invalid(format!(
                "{what} {} ({}) is {} where the plan wants {}; the attribute `request` must be the very \
                 request that the shapes were planned with",
                i + first,
                spec.name,
                describe(operand.dtype, &operand.dims),
                describe(xla_dtype(spec.dtype), &spec.shape)
            )));
        }
        if operand.data.is_null() && spec.bytes() > 0 {
            return Err(Failure::internal(format!(
                "XLA gave no memory for {what} {} ({})",
                i + first,
                spec.name
            )));
        }
    }
    Ok(())
}

fn xla_dtype(dtype: DType) -> c_int {
    match dtype {
        DType::F32 => data_type::F32,
        DType::F64 => data_type::F64,
        DType::C64 => data_type::C64,
        DType::C128 => data_type::C128,
        DType::I32 => data_type::S32,
    }
}

/// An array type as XLA prints it: `f64[500,3]`.
pub fn describe(dtype: c_int, dims: &[u64]) -> String {
    let name = match dtype {
        data_type::PRED => "pred",
        data_type::S8 => "s8",
        data_type::S16 => "s16",
        data_type::S32 => "s32",
        data_type::S64 => "s64",
        data_type::U8 => "u8",
        data_type::U16 => "u16",
        data_type::U32 => "u32",
        data_type::U64 => "u64",
        data_type::F16 => "f16",
        data_type::BF16 => "bf16",
        data_type::F32 => "f32",
        data_type::F64 => "f64",
        data_type::C64 => "c64",
        data_type::C128 => "c128",
        _ => "dtype ?",
    };
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    format!("{name}[{}]", dims.join(","))
}
