//! The unmodified crate cust runs on this stand-in, with and without a driver.

use cust::CudaFlags;
use cust::error::CudaError;

#[test]
fn cust_reports_a_missing_driver_instead_of_failing_to_load() {
    // SAFETY: the out pointer is valid.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") };
    let result = cust::init(CudaFlags::empty());
    match driver {
        Err(_) => assert_eq!(result, Err(CudaError::SharedObjectInitFailed)),
        // With a driver but without a GPU the driver's own answer stands.
        Ok(_) => assert!(matches!(result, Ok(()) | Err(CudaError::NoDevice)), "{result:?}"),
    }
}
