//! Distributed dense linear algebra on NVIDIA GPUs and, for development, on CPUs.
