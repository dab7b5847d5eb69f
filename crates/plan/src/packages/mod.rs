//! Toolkits from the packages of distributions, which `gpubuild toolkit install` unpacks without root. Pure; the data is in
//! `toolkits/packages/` and `toolkits/tables/package-managers.toml`, and `gpubuild-toolchain` installs them.

mod offer;
mod set;

pub use offer::{PackageOffer, command, offer};
pub use set::{
    LayoutVariable, ManagerKind, ManagerProgram, OptionalPackages, PackageManager, PackageRow, PackageSet,
    PrefixProgram, PrefixText, all, manager, set_of,
};
