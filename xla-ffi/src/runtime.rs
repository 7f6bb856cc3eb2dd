//! What Python tells the library about the process, and asks of it: JSON in, JSON out.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use meshsolve::communicator::nccl::{self, UNIQUE_ID_BYTES};
use meshsolve::device::cuda;
use meshsolve::libraries;
use meshsolve::solver::cusolvermp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::gpu::{self, LocalDevice};

/// One message to the library.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Message {
    /// Where NVIDIA's libraries are looked for first: `site-packages` folders or folders of libraries.
    SetLibraryFolders(Vec<PathBuf>),
    /// The devices of this process as pairs of the driver's number and the global number.
    SetLocalDevices(Vec<(i32, i64)>),
    /// A fresh unique id for a communicator of our own.
    NewUniqueId,
    /// The unique id that all processes use for these devices.
    RegisterUniqueId {
        /// Global numbers in mesh order.
        device_ids: Vec<i64>,
        /// What [`Message::NewUniqueId`] gave in one process.
        id: Vec<u8>,
    },
    /// How many handles, communicators and the like were made so far.
    Counters,
    /// NVIDIA's libraries, loaded now if need be.
    Libraries,
}

/// Does what the message says.
///
/// # Errors
/// The text is no message, or NVIDIA's libraries are missing.
pub fn handle(text: &str) -> Result<Value, Failure> {
    let message: Message = serde_json::from_str(text)
        .map_err(|error| Failure::invalid(format!("this is no message that meshsolve knows: {error}")))?;
    match message {
        Message::SetLibraryFolders(folders) => libraries::set_library_folders(folders),
        Message::SetLocalDevices(devices) => {
            gpu::set_local_devices(
                devices.into_iter().map(|(ordinal, id)| LocalDevice { ordinal, id }).collect(),
            );
        }
        Message::NewUniqueId => return Ok(json!({ "id": nccl::new_unique_id()?.to_vec() })),
        Message::RegisterUniqueId { device_ids, id } => {
            let length = id.len();
            let id: [u8; UNIQUE_ID_BYTES] = id.try_into().map_err(|_| {
                Failure::invalid(format!("a unique id of {length} bytes; NCCL's have {UNIQUE_ID_BYTES}"))
            })?;
            gpu::register_unique_id(&device_ids, id);
        }
        Message::Counters => {
            let (communicators, solver) = (nccl::counters(), cusolvermp::counters());
            return Ok(json!({
                "modules": cuda::modules_loaded(),
                "communicators_split": communicators.splits,
                "own_communicators": communicators.own_communicators,
                "handles": solver.handles,
                "grids": solver.grids,
                "descriptors": solver.descriptors,
            }));
        }
        Message::Libraries => {
            libraries::cusolvermp()?;
            let loaded = libraries::loaded().into_iter().map(
                |library| json!({ "name": library.name, "path": library.path, "version": library.version }),
            );
            return Ok(json!({ "libraries": loaded.collect::<Vec<_>>() }));
        }
    }
    Ok(json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        assert_eq!(handle(r#"{"set_local_devices":[[0,0],[1,7]]}"#).unwrap(), json!({}));
        assert_eq!(handle(r#""counters""#).unwrap()["handles"], 0);
        let error = handle(r#"{"register_unique_id":{"device_ids":[0],"id":[1,2]}}"#).unwrap_err();
        assert!(error.message.contains("2 bytes"), "{error}");
        assert!(handle("{}").unwrap_err().message.contains("no message that meshsolve knows"));
    }
}
