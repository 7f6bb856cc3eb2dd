//! Bindings to NCCL, loaded at run time.
