//! What the jobs of an image request from the scheduler of a cluster, beside processors, memory and time.

use std::collections::BTreeMap;

use gpubuild_detect::facts::Vendor;
use gpubuild_plan::project::variant::ImageTable;

/// The requests of an image. Those of built-in images are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageRequests {
    sbatch: Option<Vec<String>>,
    limits: Option<BTreeMap<String, String>>,
    /// Labels of the nodes in Kubernetes.
    pub node_selector: BTreeMap<String, String>,
    /// The vendor of the recorded GPU.
    gpu: Option<Vendor>,
}

impl ImageRequests {
    /// The requests of `[ci.images.NAME]`, whose recording has this GPU.
    pub(super) fn new(table: &ImageTable, gpu: Option<Vendor>) -> Self {
        Self {
            sbatch: table.sbatch.clone(),
            limits: table.kubernetes.limits.clone(),
            node_selector: table.kubernetes.node_selector.clone(),
            gpu,
        }
    }

    /// Options of `sbatch` for a job that builds.
    #[must_use]
    pub fn sbatch(&self) -> &[String] {
        self.sbatch.as_deref().unwrap_or_default()
    }

    /// Options of `sbatch` for a job that tests.
    #[must_use]
    pub fn sbatch_of_test(&self) -> Vec<String> {
        let gpu = || self.gpu.map(|_| "--gres=gpu:1".to_owned()).into_iter().collect();
        self.sbatch.clone().unwrap_or_else(gpu)
    }

    /// Limits of a container that builds.
    #[must_use]
    pub fn limits(&self) -> BTreeMap<String, String> {
        self.limits.clone().unwrap_or_default()
    }

    /// Limits of a container that tests. The names are those of the device plugins of NVIDIA and AMD; Intel's depends on the driver.
    #[must_use]
    pub fn limits_of_test(&self) -> BTreeMap<String, String> {
        let name = match self.gpu {
            Some(Vendor::Nvidia) => Some("nvidia.com/gpu"),
            Some(Vendor::Amd) => Some("amd.com/gpu"),
            _ => None,
        };
        let gpu = || name.map(|name| (name.to_owned(), "1".to_owned())).into_iter().collect();
        self.limits.clone().unwrap_or_else(gpu)
    }
}
