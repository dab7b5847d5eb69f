//! The document of `gpubuild test --json`.

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Schema;

/// The document of `test --json`: the results of every backend.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TestDocument {
    /// `test`.
    pub schema: Schema,
    /// The results, in the usual order of backends.
    pub backends: Vec<BackendTests>,
}

impl TestDocument {
    /// The document of these results.
    #[must_use]
    pub fn new(mut backends: Vec<BackendTests>) -> Self {
        backends.sort_indirect_by_key(|report| report.id);
        Self { schema: Schema { name: "test", version: 1 }, backends }
    }
}

/// Results of one backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackendTests {
    /// Id of the backend.
    pub id: Backend,
    /// Whether there are results, and why not.
    pub state: TestState,
    /// Name of the tested device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Its architecture: `sm_90`, `gfx942`, `avx2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Its driver: `580.65.06 (CUDA 13.0)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The toolkit that compiled the kernels: `CUDA Toolkit 13.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolkit: Option<String>,
    /// The reason if no tests were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of cases within their error bounds.
    pub passed: u64,
    /// Number of cases outside their error bounds.
    pub failed: u64,
    /// Number of cases that the device does not support.
    pub skipped: u64,
    /// Every case, as the test program reports it: `op`, `type`, `shape`, `nmse`, `ok`.
    pub cases: Vec<Value>,
}

/// Whether a backend has results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TestState {
    /// The tests ran.
    Tested,
    /// No device was found.
    NoDevice,
    /// The test program crashed, timed out or printed no report.
    Broken,
}

impl BackendTests {
    /// Parses the report that the test program printed.
    ///
    /// # Errors
    /// The output is not a report.
    pub fn parse(id: Backend, text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct SuiteReport {
            #[serde(default)]
            device: String,
            #[serde(default)]
            arch: String,
            #[serde(default)]
            driver: String,
            passed: u64,
            failed: u64,
            skipped: u64,
            cases: Vec<Value>,
        }
        let report: SuiteReport = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let why = |case: &Value| case.get("skipped").and_then(Value::as_str).map(str::to_owned);
        let alone = if report.device.is_empty() { report.cases.first().and_then(why) } else { None };
        let said = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Self {
            id,
            state: TestState::Tested,
            device: said(report.device),
            arch: said(report.arch),
            driver: said(report.driver),
            toolkit: None,
            reason: alone,
            passed: report.passed,
            failed: report.failed,
            skipped: report.skipped,
            cases: report.cases,
        })
    }

    /// A backend whose test program failed.
    #[must_use]
    pub fn broken(id: Backend, reason: &str) -> Self {
        Self {
            id,
            state: TestState::Broken,
            device: None,
            arch: None,
            driver: None,
            toolkit: None,
            reason: Some(reason.to_owned()),
            passed: 0,
            failed: 0,
            skipped: 0,
            cases: Vec::new(),
        }
    }

    /// The cases that failed, one line each.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let text =
            |case: &Value, key: &str| case.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let failed = self.cases.iter().filter(|case| case.get("ok") == Some(&Value::Bool(false)));
        failed.map(move |case| {
            format!(
                "{} {} {}: {}",
                text(case, "op"),
                text(case, "type"),
                text(case, "shape"),
                text(case, "error")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_test_program_are_parsed() {
        let text = r#"{"backend":"cpu","device":"Xeon","arch":"avx2","driver":"","passed":1,"failed":1,"skipped":0,"cases":[
{"op":"matmul","type":"q8_0","shape":"4x4","nmse":2.1e-05,"ok":true},
{"op":"rope","type":"f32","shape":"8","nmse":1,"ok":false,"error":"too far"}
]}"#;
        let report = BackendTests::parse(Backend::Cpu, text).unwrap();
        assert_eq!((report.passed, report.failed, report.device.as_deref()), (1, 1, Some("Xeon")));
        assert_eq!((report.arch.as_deref(), report.driver.as_deref()), (Some("avx2"), None));
        assert_eq!(report.failures().collect::<Vec<_>>(), ["rope f32 8: too far"]);
        assert!(BackendTests::parse(Backend::Cpu, "Segmentation fault").is_err());
    }

    #[test]
    fn missing_device_has_a_reason() {
        let text = r#"{"backend":"vulkan","device":"","passed":0,"failed":0,"skipped":1,"cases":[{"op":"device","type":"","shape":"","skipped":"no libvulkan.so.1"}]}"#;
        let report = BackendTests::parse(Backend::Vulkan, text).unwrap();
        assert_eq!(report.reason.as_deref(), Some("no libvulkan.so.1"));
    }
}
