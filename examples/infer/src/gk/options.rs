//! How a device is opened.

/// Options for opening a device.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions {
    /// Worker threads of `cpu` and `ref`; 0 = one per fast core that this process may use.
    pub threads: u32,
    /// Allows `cpu`, and `vulkan` in prompts, to round activations, or not.
    pub precision: Precision,
    /// Use of fused ops in plans.
    pub fusion: Fusion,
    /// Where the threads of `cpu` may run.
    pub binding: Binding,
}

/// Processors of a thread of `cpu`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Binding {
    /// All that this process may use.
    #[default]
    Free,
    /// Those of one memory node (NUMA), which also holds the rows of weights that the thread reads.
    Node,
}

/// Combines several ops into one if the device has a kernel for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fusion {
    /// Fewer launches and barriers, and less memory traffic.
    #[default]
    On,
    /// Every op on its own, for comparisons.
    Off,
}

/// Precision of products on backends that can round activations to eight bits or to bf16.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precision {
    /// Rounded activations: the fastest for large weights.
    #[default]
    Fast,
    /// As exact as f32 allows, so that every backend generates the same text; four times the memory.
    Exact,
}
