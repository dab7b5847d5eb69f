//! Types that every other crate of gpubuild uses (backends, versions, GPU architectures, instruction sets, operating systems), and
//! functions that make text safe for terminals, shells and publication.
//!
//! Part of gpubuild. The interface is not stable.

/// Implements [`schemars::JsonSchema`] for a type that is a string in JSON.
#[cfg(feature = "schema")]
#[macro_export]
macro_rules! string_schema {
    ($type:ty) => {
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    };
}

pub mod arch;
pub mod backend;
pub mod clean;
pub mod isa;
pub mod order;
pub mod platform;
pub mod screen;
pub mod secret;
pub mod shell;
pub mod template;
pub mod text;
pub mod version;

pub use backend::Backend;
pub use platform::Os;
pub use version::Version;
