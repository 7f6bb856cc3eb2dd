//! State that XLA keeps for a call site between the stages of a call.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::call::{Api, Call, guarded, slot};
use crate::failure::Failure;
use crate::sys;

/// A Rust type that XLA can keep as state.
///
/// XLA knows types by ids that each XLA instance of the process gives out on its own (jaxlib's
/// runtime and every plugin have their own registry), so ids are kept by the instance's table.
pub struct StateType<T> {
    name: &'static str,
    info: sys::TypeInfo,
    ids: Mutex<Vec<(Api, sys::TypeId)>>,
    state: PhantomData<fn(T)>,
}

// SAFETY: `info` is constant, its pointer is null; the ids are behind a lock.
unsafe impl<T: Send + Sync> Sync for StateType<T> {}

impl<T: Send + Sync + 'static> StateType<T> {
    /// The state type `T`, under a name that is ours alone.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            info: sys::TypeInfo {
                struct_size: size_of::<sys::TypeInfo>(),
                extension_start: ptr::null_mut(),
                deleter: Some(delete::<T>),
            },
            ids: Mutex::new(Vec::new()),
            state: PhantomData,
        }
    }

    /// Hands `state` to XLA, which keeps it as long as the compiled program lives.
    ///
    /// # Errors
    /// XLA's own, for instance when the call site has state already.
    pub fn set(&'static self, call: &Call<'_>, state: T) -> Result<(), Failure> {
        let api = call.api();
        let mut id = self.id(api)?;
        let set = slot!(api, state_set).ok_or_else(|| Failure::unsupported("this XLA keeps no state"))?;
        let state = Box::into_raw(Box::new(state));
        let (extension_start, ctx, type_id) = (ptr::null_mut(), call.context(), &raw mut id);
        // SAFETY: each minor gets the struct that it defines; the pointers outlive the call.
        let error = unsafe {
            match api.minor() {
                ..2 => set(untyped(&mut sys::StateSetArgsMinor1 {
                    struct_size: size_of::<sys::StateSetArgsMinor1>(),
                    extension_start,
                    ctx,
                    type_id,
                    state: state.cast(),
                    deleter: Some(delete::<T>),
                })),
                2 => set(untyped(&mut sys::StateArgsWithoutStage {
                    struct_size: size_of::<sys::StateArgsWithoutStage>(),
                    extension_start,
                    ctx,
                    type_id,
                    state: state.cast(),
                })),
                3.. => set(untyped(&mut sys::StateArgs {
                    struct_size: size_of::<sys::StateArgs>(),
                    extension_start,
                    ctx,
                    stage: call.stage(),
                    type_id,
                    state: state.cast(),
                })),
            }
        };
        api.check(error).inspect_err(|_| {
            // SAFETY: XLA refused the state, so it is still ours.
            drop(unsafe { Box::from_raw(state) });
        })
    }

    /// The state that [`StateType::set`] left at this call site in the instantiate stage.
    ///
    /// # Errors
    /// XLA's own, for instance when there is no state of this type.
    pub fn get<'call>(&'static self, call: &'call Call<'_>) -> Result<&'call T, Failure> {
        let api = call.api();
        let mut id = self.id(api)?;
        let get = slot!(api, state_get).ok_or_else(|| Failure::unsupported("this XLA keeps no state"))?;
        let (extension_start, ctx, type_id) = (ptr::null_mut(), call.context(), &raw mut id);
        let state = if api.minor() < 3 {
            let mut args = sys::StateArgsWithoutStage {
                struct_size: size_of::<sys::StateArgsWithoutStage>(),
                extension_start,
                ctx,
                type_id,
                state: ptr::null_mut(),
            };
            // SAFETY: the struct of minors 1 and 2; the pointers outlive the call.
            api.check(unsafe { get(untyped(&mut args)) })?;
            args.state
        } else {
            let mut args = sys::StateArgs {
                struct_size: size_of::<sys::StateArgs>(),
                extension_start,
                ctx,
                stage: sys::stage::INSTANTIATE,
                type_id,
                state: ptr::null_mut(),
            };
            // SAFETY: the struct of minor 3 and later; the pointers outlive the call.
            api.check(unsafe { get(untyped(&mut args)) })?;
            args.state
        };
        // SAFETY: XLA checked the type, the state came from a `Box<T>`, and it outlives the call.
        unsafe { state.cast::<T>().as_ref() }
            .ok_or_else(|| Failure::internal("XLA gave a null pointer for the state of a call site"))
    }

    fn id(&'static self, api: Api) -> Result<sys::TypeId, Failure> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, id)) = ids.iter().find(|(known, _)| *known == api) {
            return Ok(*id);
        }
        let register =
            slot!(api, type_register).ok_or_else(|| Failure::unsupported("this XLA keeps no state"))?;
        // The address keeps two copies of this library in one process apart.
        let name = format!("{}@{:p}", self.name, self);
        let span = sys::ByteSpan { ptr: name.as_ptr().cast(), len: name.len() };
        let mut id = sys::TypeId { type_id: 0 };
        // SAFETY: each minor gets the struct that it defines; `info` is static, XLA copies the name.
        let error = unsafe {
            if api.minor() < 2 {
                register(untyped(&mut sys::TypeRegisterArgsMinor1 {
                    struct_size: size_of::<sys::TypeRegisterArgsMinor1>(),
                    extension_start: ptr::null_mut(),
                    name: span,
                    type_id: &raw mut id,
                }))
            } else {
                register(untyped(&mut sys::TypeRegisterArgs {
                    struct_size: size_of::<sys::TypeRegisterArgs>(),
                    extension_start: ptr::null_mut(),
                    name: span,
                    type_id: &raw mut id,
                    type_info: &raw const self.info,
                }))
            }
        };
        api.check(error)?;
        ids.push((api, id));
        Ok(id)
    }
}

/// The arguments of a function whose struct depends on the minor.
fn untyped<T>(args: &mut T) -> *mut c_void {
    ptr::from_mut(args).cast()
}

/// Destroys a state for XLA.
///
/// # Safety
/// `state` must come from [`StateType::set`] with this `T` and be used no more.
unsafe extern "C" fn delete<T>(state: *mut c_void) {
    let _ = guarded(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(state.cast::<T>()) });
        Ok(())
    });
}
