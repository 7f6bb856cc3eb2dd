//! Regenerates `src/bindings.rs` from NVIDIA's header:
//! `cargo run -p cust_raw --features generate --bin generate_cust_raw -- <cuda.h> <bindings.rs> [clang arguments…]`,
//! then `cargo fmt -p cust_raw`.
//!
//! The header must be that of CUDA 11.8 (PyPI: nvidia-cuda-runtime-cu11), the last one whose structs
//! have the shapes that cust 0.3.2 was written for. Drivers of CUDA 12 and 13 keep these entry points.

use bindgen::callbacks::{EnumVariantCustomBehavior, EnumVariantValue, ParseCallbacks};
use std::{env, error::Error, fs};

/// Hides the enum variants that cust 0.3.2 does not know: it matches their enums without a wildcard.
#[derive(Debug)]
struct HideNewVariants;

impl ParseCallbacks for HideNewVariants {
    fn enum_variant_behavior(
        &self,
        _enum_name: Option<&str>,
        variant: &str,
        _value: EnumVariantValue,
    ) -> Option<EnumVariantCustomBehavior> {
        const NEW: [&str; 4] = [
            "CU_AD_FORMAT_UNORM",
            "CU_AD_FORMAT_SNORM",
            "CU_AD_FORMAT_BC",
            "CU_GRAPH_NODE_TYPE_BATCH_MEM_OP",
        ];
        NEW.iter().any(|prefix| variant.starts_with(prefix)).then_some(EnumVariantCustomBehavior::Hide)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [header, output, clang_args @ ..] = args.as_slice() else {
        return Err("usage: generate <cuda.h> <bindings.rs> [clang arguments…]".into());
    };
    let bindings = bindgen::Builder::default()
        .header(header)
        .clang_args(clang_args)
        .parse_callbacks(Box::new(HideNewVariants))
        .rust_target(bindgen::RustTarget::stable(90, 0).map_err(|e| e.to_string())?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .allowlist_function("cu.*")
        .allowlist_type("(CU|cu|CUDA_).*")
        .allowlist_var("CU(DA)?_.*")
        .default_enum_style(bindgen::EnumVariation::Rust { non_exhaustive: false })
        .derive_eq(true)
        .derive_hash(true)
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(true)
        .merge_extern_blocks(true)
        .generate()?
        .to_string();
    // The macro in src/lib.rs turns these declarations into functions that load the driver.
    let functions = bindings.replace("unsafe extern \"C\" {", "driver_functions! {");
    fs::write(output, functions + &known_results(&bindings)?)?;
    Ok(())
}

/// A Rust list of every result code in the bindings: an enum may hold no other.
fn known_results(bindings: &str) -> Result<String, Box<dyn Error>> {
    let (_, from_enum) = bindings.split_once("pub enum cudaError_enum {").ok_or("no enum of result codes")?;
    let (variants, _) = from_enum.split_once('}').ok_or("the enum of result codes has no end")?;
    let names = variants.lines().filter_map(|line| line.trim().split_once(" = "));
    let list: String = names.map(|(name, _)| format!("    CUresult::{name},\n")).collect();
    Ok(format!("pub(crate) const KNOWN_RESULTS: &[CUresult] = &[\n{list}];\n"))
}
