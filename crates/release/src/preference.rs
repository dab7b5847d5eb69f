//! The order in which backends are tried: those that the publisher prefers, then gpubuild's order, then the CPU. Pure.

use gpubuild_core::backend::Backend;
use gpubuild_detect::matrix::PREFERENCE;

use super::manifest::ReleasePlatform;

/// The order of the backends for a platform of a release, the CPU last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendOrder(Vec<Backend>);

impl BackendOrder {
    /// The order for a platform.
    pub(crate) fn of(platform: &ReleasePlatform) -> Self {
        Self::preferring(&platform.prefer)
    }

    /// The order for a publisher's preference.
    pub(crate) fn preferring(prefer: &[Backend]) -> Self {
        let others = PREFERENCE.into_iter().filter(|backend| !prefer.contains(backend));
        Self(prefer.iter().copied().chain(others).chain([Backend::Cpu]).collect())
    }

    /// The backends, the best first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Backend> + '_ {
        self.0.iter().copied()
    }

    /// The position of a backend. Smaller is better.
    pub(crate) fn rank(&self, backend: Backend) -> usize {
        self.0.iter().position(|other| *other == backend).unwrap_or(usize::MAX)
    }

    /// Whether only the publisher's preference puts `used` before `other`.
    pub(crate) fn publisher_prefers(&self, used: Backend, other: Backend) -> bool {
        let own = |backend| PREFERENCE.iter().position(|one| *one == backend).unwrap_or(usize::MAX);
        self.rank(used) < self.rank(other) && own(other) < own(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(prefer: &[Backend]) -> BackendOrder {
        BackendOrder::of(&ReleasePlatform {
            default: "cpu".to_owned(),
            prefer: prefer.to_vec(),
            variants: Vec::new(),
        })
    }

    #[test]
    fn preferred_backends_precede_the_others() {
        use Backend::{Cpu, Cuda, Metal, Opencl, Rocm, Sycl, Vulkan};
        let found: Vec<Backend> = order(&[Vulkan, Sycl]).iter().collect();
        assert_eq!(found, [Vulkan, Sycl, Cuda, Rocm, Metal, Opencl, Cpu]);
        let usual: Vec<Backend> = order(&[]).iter().collect();
        assert_eq!(usual, [Cuda, Rocm, Metal, Vulkan, Sycl, Opencl, Cpu]);
    }

    #[test]
    fn publisher_is_named_only_where_the_usual_order_differs() {
        let order = order(&[Backend::Vulkan]);
        assert!(order.publisher_prefers(Backend::Vulkan, Backend::Cuda));
        for (used, other) in [
            (Backend::Vulkan, Backend::Sycl),
            (Backend::Cuda, Backend::Vulkan),
            (Backend::Cuda, Backend::Rocm),
            (Backend::Cpu, Backend::Cuda),
        ] {
            assert!(!order.publisher_prefers(used, other), "{used} and {other}");
        }
    }
}
