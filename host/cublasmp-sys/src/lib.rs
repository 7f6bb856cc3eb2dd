//! Bindings to cuBLASMp, loaded at run time.
