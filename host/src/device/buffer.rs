//! A window of device memory.

/// Address and length of device memory that is valid for the current call (on CPU devices,
/// ordinary memory). It owns nothing and may be copied and sliced freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    address: u64,
    bytes: u64,
}

impl Buffer {
    /// No memory.
    pub const EMPTY: Buffer = Buffer { address: 0, bytes: 0 };

    /// Memory at `address`.
    ///
    /// # Safety
    /// The memory must stay valid on its device, and free of other accesses, for as long as copies
    /// of this window are used.
    pub unsafe fn from_raw(address: *mut u8, bytes: u64) -> Self {
        Self { address: address as u64, bytes }
    }

    /// The device address; 0 for [`Buffer::EMPTY`].
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the window holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// `bytes` bytes from `offset` on.
    ///
    /// # Panics
    /// If that reaches outside the window: plans compute offsets, so this is a bug here, never the
    /// caller's input.
    pub fn slice(&self, offset: u64, bytes: u64) -> Self {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "slice {offset}+{bytes} of a buffer of {} bytes",
            self.bytes
        );
        Self { address: self.address + offset, bytes }
    }

    /// The memory of a CPU device as plain values; a trailing partial value is left out.
    ///
    /// # Safety
    /// The window must lie in memory of this process, and nothing may write to it meanwhile.
    pub unsafe fn as_slice<'a, T: bytemuck::Pod>(&self) -> &'a [T] {
        let (pointer, count) = self.parts::<T>();
        // SAFETY: valid by this function's contract, alignment checked by `parts`.
        unsafe { std::slice::from_raw_parts(pointer, count) }
    }

    /// The memory of a CPU device as plain values that can be written.
    ///
    /// # Safety
    /// The window must lie in memory of this process, and nothing else may access it meanwhile.
    pub unsafe fn as_mut_slice<'a, T: bytemuck::Pod>(&self) -> &'a mut [T] {
        let (pointer, count) = self.parts::<T>();
        // SAFETY: valid and unshared by this function's contract, alignment checked by `parts`.
        unsafe { std::slice::from_raw_parts_mut(pointer, count) }
    }

    fn parts<T>(&self) -> (*mut T, usize) {
        if self.is_empty() {
            return (std::ptr::NonNull::dangling().as_ptr(), 0);
        }
        let address = usize::try_from(self.address).expect("an address of this process");
        assert_eq!(
            address % align_of::<T>(),
            0,
            "buffer at {address:#x} is not aligned for its element type"
        );
        let count = usize::try_from(self.bytes).expect("a length of this process") / size_of::<T>();
        (address as *mut T, count)
    }
}
