//! Local stand-in for the Rust-CUDA crate `find_cuda_helper`.
//!
//! The original searches for a CUDA installation and links libcuda. Here the driver is loaded at run
//! time by the stand-in of `cust_raw`, so a build script that asks for CUDA has nothing to do.

/// Does nothing: no CUDA is needed to build.
pub fn include_cuda() {}

/// The root of a CUDA installation: none is ever needed.
pub fn find_cuda_root() -> Option<std::path::PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_is_searched_for() {
        super::include_cuda();
        assert_eq!(super::find_cuda_root(), None);
    }
}
