//! The C symbols as Python uses them.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use meshsolve::plan::Plan;
use meshsolve_xla_ffi::exports::{meshsolve_free, meshsolve_handlers, meshsolve_plan, meshsolve_version};
use meshsolve_xla_ffi::workspace;
use serde_json::{Value, json};

/// Sends text that is not necessarily JSON.
fn reply(request: &[u8]) -> Value {
    let request = CString::new(request).unwrap();
    // SAFETY: text terminated by zero; the reply is copied, then freed once.
    unsafe {
        let reply = meshsolve_plan(request.as_ptr());
        let text = CStr::from_ptr(reply).to_str().unwrap().to_owned();
        meshsolve_free(reply);
        serde_json::from_str(&text).unwrap()
    }
}

fn request(n: u64, grid: [u64; 2], tile: Option<u64>) -> Value {
    json!({
        "routine": "system", "method": "cholesky", "task": "solve", "dtype": "c64", "n": n, "nrhs": 3, "grid": grid, "tile": tile,
        "b": {"rows": "sharded", "cols": "replicated"}, "triangle": null, "log_det": true,
    })
}

fn planned(request: &Value) -> Value {
    reply(request.to_string().as_bytes())
}

#[test]
fn the_version_is_that_of_the_crate() {
    // SAFETY: constant text terminated by zero.
    let version = unsafe { CStr::from_ptr(meshsolve_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_table_lists_each_stage_once() {
    let mut count = 0;
    // SAFETY: a table of `count` entries of constant text.
    let stages: Vec<_> = unsafe {
        let table = meshsolve_handlers(&raw mut count);
        std::slice::from_raw_parts(table, count)
            .iter()
            .map(|entry| {
                [entry.target, entry.platform, entry.stage].map(|t| CStr::from_ptr(t).to_str().unwrap())
            })
            .collect()
    };
    let expected = ["cpu", "CUDA"]
        .map(|platform| ["instantiate", "prepare", "execute"].map(|stage| ["meshsolve", platform, stage]));
    assert_eq!(stages, expected.as_flattened());
    // SAFETY: null is allowed.
    assert!(!unsafe { meshsolve_handlers(ptr::null_mut()) }.is_null());
}

#[test]
fn a_plan_names_operands_and_shapes() {
    // Shards of ⌈1000/2⌉ rows and ⌈1000/2⌉ columns; a tile of 128 makes them grow to 512.
    let reply = planned(&request(1000, [2, 2], Some(128)));
    let plan = &reply["plan"];
    assert_eq!((&plan["routine"], &plan["tile"], &plan["ranks"]), (&json!("system"), &json!(128), &json!(4)));
    assert_eq!(
        plan["inputs"],
        json!([
            {"name": "a", "dtype": "c64", "shape": [500, 500], "alias": null},
            {"name": "b", "dtype": "c64", "shape": [500, 3], "alias": null},
        ])
    );
    let outputs = plan["outputs"].as_array().unwrap();
    let names: Vec<_> = outputs.iter().map(|output| output["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["work", "b_work", "x", "log_det", "status"]);
    assert_eq!(outputs[0], json!({"name": "work", "dtype": "c64", "shape": [512, 512], "alias": null}));
    assert_eq!(outputs[2]["shape"], json!([500, 3]));
    assert_eq!(outputs[3], json!({"name": "log_det", "dtype": "f32", "shape": [1], "alias": null}));
    assert_eq!(outputs[4], json!({"name": "status", "dtype": "i32", "shape": [1], "alias": null}));
    assert!(plan["scratch_bytes"].is_u64());
    assert!(plan["workspace_bytes"].as_u64() > Some(0));
    assert_eq!(plan["workspace_is_exact"], json!(false));
    assert!(plan["explain"].as_str().unwrap().lines().count() > 1);
    // A tile that divides the shard needs no second matrix.
    let reply = planned(&request(1000, [2, 2], Some(250)));
    assert_eq!(reply["plan"]["outputs"][0]["alias"], json!(0));
}

#[test]
fn workspace_is_exact_once_a_device_was_asked_for_it() {
    let request = request(777, [1, 2], Some(111));
    let estimated = planned(&request)["plan"]["workspace_bytes"].as_u64().unwrap();
    let fingerprint = Plan::from_json(&request.to_string()).unwrap().fingerprint();
    for bytes in [estimated + 1, 3_000_000, 5] {
        workspace::note(fingerprint, bytes);
    }
    let plan = &planned(&request)["plan"];
    assert_eq!((&plan["workspace_bytes"], &plan["workspace_is_exact"]), (&json!(3_000_000), &json!(true)));
    assert!(plan["explain"].as_str().unwrap().contains("workspace 3000.0 kB (exact)"), "{plan}");
    let other = &planned(&self::request(778, [1, 2], Some(111)))["plan"];
    assert_eq!(other["workspace_is_exact"], json!(false), "another plan");
}

#[test]
fn a_wrong_request_is_an_error_with_a_reason() {
    let mut unknown = request(8, [1, 1], None);
    unknown["surprise"] = json!(1);
    let mut integers = request(8, [1, 1], None);
    integers["dtype"] = json!("i32");
    let cases: [(Vec<u8>, &str); 6] = [
        (b"".to_vec(), "EOF"),
        (b"{\"routine\":\"gesv\"}".to_vec(), "gesv"),
        (b"\xff".to_vec(), "not UTF-8"),
        (unknown.to_string().into(), "surprise"),
        (integers.to_string().into(), "f32, f64, c64 or c128"),
        (request(8, [0, 1], None).to_string().into(), "process rows is 0"),
    ];
    for (request, text) in cases {
        let reply = reply(&request);
        let error = &reply["error"];
        assert_eq!(error["kind"], "invalid_argument", "{reply}");
        assert!(error["message"].as_str().unwrap().contains(text), "{reply}");
        assert_eq!(reply["plan"], Value::Null);
    }
}

#[test]
fn null_is_an_error_and_not_a_crash() {
    // SAFETY: null is allowed for both.
    unsafe {
        let reply: *mut c_char = meshsolve_plan(ptr::null());
        let text = CStr::from_ptr(reply).to_str().unwrap().to_owned();
        meshsolve_free(reply);
        assert!(text.contains("the text passed to meshsolve is null"), "{text}");
        meshsolve_free(ptr::null_mut());
    }
}
