//! Device kernels of meshsolve: one source for PTX and for the host emulator.
