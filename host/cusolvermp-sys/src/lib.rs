//! Bindings to cuSOLVERMp, loaded at run time.
