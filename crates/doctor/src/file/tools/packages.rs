//! Recognizes commands that install drivers, toolkits or Vulkan.

use gpubuild_core::version::Version;

use super::CommandView;
use crate::file::shell::{ShellCommand, ShellWord};
use crate::file::text::has_extension;

/// A package that a command installs.
#[derive(Debug, Clone, Copy)]
pub struct PackageRow<'a> {
    /// The package manager.
    pub manager: PackageManager,
    /// The package's name without a version constraint.
    pub name: &'a str,
    /// The argument that names it.
    pub word: &'a ShellWord,
}

/// Groups of package managers with the same package names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageManager {
    /// apt-get, dnf and similar: packages of the distribution or of NVIDIA's repository.
    System,
    /// pacman, which uses other package names.
    Arch,
    /// conda, mamba and micromamba.
    Conda,
    /// pip and uv.
    Pip,
}

/// The packages that a command installs.
#[must_use]
pub fn packages(command: &ShellCommand) -> Vec<PackageRow<'_>> {
    let view = CommandView::new(command);
    let Some((manager, words)) = installs(view) else { return Vec::new() };
    let mut list = Vec::new();
    let mut is_value = false;
    for word in words {
        let text = word.text.as_str();
        if std::mem::take(&mut is_value) {
            continue;
        }
        if text.starts_with('-') {
            is_value = matches!(
                text,
                "-o" | "-t"
                    | "-c"
                    | "-n"
                    | "-p"
                    | "-f"
                    | "-i"
                    | "-r"
                    | "--index-url"
                    | "--extra-index-url"
                    | "--find-links"
                    | "--channel"
                    | "--name"
                    | "--prefix"
                    | "--target-release"
                    | "--file"
                    | "--virtual"
            );
            continue;
        }
        let name = text.split(['=', '<', '>', '[', '~', '!']).next().unwrap_or(text);
        let name = if matches!(manager, PackageManager::System | PackageManager::Arch) {
            name.split(['/', ':']).next().unwrap_or(name)
        } else {
            name.rsplit("::").next().unwrap_or(name)
        };
        list.push(PackageRow { manager, name, word });
    }
    list
}

/// The package manager and the words after its install verb.
fn installs(view: CommandView<'_>) -> Option<(PackageManager, &[ShellWord])> {
    let after = |verbs: &[&str]| {
        let at = view.words.iter().position(|word| verbs.contains(&word.text.as_str()))?;
        // Only options may precede the verb.
        let is_option = |word: &ShellWord| word.text.starts_with('-') || word.text.contains("::");
        view.words[..at].iter().all(is_option).then(|| &view.words[at + 1..])
    };
    match view.program {
        "apt" | "apt-get" | "aptitude" | "apt-fast" | "dnf" | "yum" | "microdnf" | "tdnf" | "dnf5" => {
            Some((PackageManager::System, after(&["install", "reinstall", "localinstall"])?))
        }
        "zypper" => Some((PackageManager::System, after(&["install", "in"])?)),
        "apk" => Some((PackageManager::System, after(&["add"])?)),
        "pacman" | "yay" | "paru" => {
            let is_sync = view.words.first().is_some_and(|word| word.text.starts_with("-S"));
            is_sync.then_some((PackageManager::Arch, view.words.get(1..)?))
        }
        "conda" | "mamba" | "micromamba" => Some((PackageManager::Conda, after(&["install", "create"])?)),
        "pip" | "pip3" | "pipx" => Some((PackageManager::Pip, after(&["install"])?)),
        "uv" if view.words.first().is_some_and(|word| word.text == "pip") => {
            let at = view.words.iter().position(|word| word.text == "install")?;
            Some((PackageManager::Pip, &view.words[at + 1..]))
        }
        program
            if program.starts_with("python")
                && view.words.iter().take(2).map(|word| word.text.as_str()).eq(["-m", "pip"]) =>
        {
            let at = view.words.iter().position(|word| word.text == "install")?;
            Some((PackageManager::Pip, &view.words[at + 1..]))
        }
        _ => None,
    }
}

/// A package or installer that installs a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverPackage {
    /// The word that names it.
    pub word: ShellWord,
    /// The replacement, if the command also installs something else that is needed.
    pub replacement: Option<String>,
    /// What it installs, for messages.
    pub what: &'static str,
    /// Whether it contains kernel modules only, and no library that could hide one of the host.
    pub is_kernel_only: bool,
}

/// The driver that a command installs, if it does.
#[must_use]
pub fn driver(command: &ShellCommand) -> Option<DriverPackage> {
    let of_package = |package: &PackageRow<'_>| {
        let is_system = matches!(package.manager, PackageManager::System | PackageManager::Arch);
        is_system.then(|| driver_package(package)).flatten()
    };
    packages(command)
        .iter()
        .find_map(of_package)
        .or_else(|| run_file(command))
        .or_else(|| amdgpu_install(command))
}

fn driver_package(package: &PackageRow<'_>) -> Option<DriverPackage> {
    let name = package.name;
    let word = package.word.clone();
    let modules = [
        "nvidia-dkms",
        "nvidia-kernel",
        "akmod-nvidia",
        "kmod-nvidia",
        "dkms-nvidia",
        "linux-modules-nvidia",
        "amdgpu-dkms",
    ];
    let kernel = [
        "nvidia-driver",
        "nvidia-open",
        "xorg-x11-drv-nvidia",
        "cuda-drivers",
        "nvidia-headless",
        "nvidia-legacy",
    ];
    let user = [
        "libnvidia-compute",
        "libnvidia-gl",
        "libnvidia-cfg",
        "nvidia-utils",
        "nvidia-compute-utils",
        "nvidia-compute-G",
        "nvidia-gl-G",
    ];
    let begins = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    if begins(&modules) {
        let what = "a GPU driver's kernel modules";
        return Some(DriverPackage { word, replacement: None, what, is_kernel_only: true });
    }
    if begins(&kernel) || matches!(name, "nvidia" | "nvidia-lts") {
        return Some(DriverPackage { word, replacement: None, what: "a GPU driver", is_kernel_only: false });
    }
    if begins(&user) || matches!(name, "libcuda1" | "libnvidia-ml1" | "nvidia-smi") {
        return Some(DriverPackage {
            word,
            replacement: None,
            what: "the driver's libraries",
            is_kernel_only: false,
        });
    }
    // The meta package `cuda`: toolkit and driver.
    let release = name.strip_prefix("cuda").filter(|rest| rest.is_empty() || is_release(rest))?;
    // On Arch Linux, this package contains only the toolkit.
    if package.manager == PackageManager::Arch {
        return None;
    }
    let requested = package.word.text.split_once('=').and_then(|(_, version)| Version::find_in(version));
    let replacement = match requested {
        Some(version) if release.is_empty() => {
            format!("cuda-toolkit-{}-{}", version.major(), version.minor())
        }
        _ => format!("cuda-toolkit{}", release.replace('.', "-")),
    };
    Some(DriverPackage {
        word,
        replacement: Some(replacement),
        what: "the driver along with the toolkit",
        is_kernel_only: false,
    })
}

/// Whether a name ends in a release: `-12-4`, `-12.4`.
fn is_release(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('-') else { return false };
    let mut parts = rest.split(['-', '.']);
    parts.clone().count() == 2
        && parts.all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A run file that installs a driver: `NVIDIA-Linux-x86_64-550.54.14.run`, or
/// `sh cuda_12.2.0_535.54.03_linux.run --silent` without `--toolkit`.
fn run_file(command: &ShellCommand) -> Option<DriverPackage> {
    let word = command.words.iter().take(3).find(|word| has_extension(&word.text, "run"))?;
    let starts_it = word == &command.words[0] || matches!(command.program(), "sh" | "bash");
    if !starts_it {
        return None;
    }
    let name = word.text.rsplit('/').next().unwrap_or_default();
    let has = |flag: &str| command.has(flag);
    if name.starts_with("NVIDIA-Linux-") {
        let only_unpacks = has("-x") || has("--extract-only");
        return (!only_unpacks).then(|| DriverPackage {
            word: word.clone(),
            replacement: None,
            what: "NVIDIA's driver",
            is_kernel_only: false,
        });
    }
    let is_toolkit = name.starts_with("cuda_") || name.starts_with("cuda-linux");
    let installs_driver = has("--driver")
        || !(has("--toolkit")
            || has("-toolkit")
            || command.arguments().any(|flag| flag.starts_with("--extract")));
    (is_toolkit && installs_driver).then(|| DriverPackage {
        word: word.clone(),
        replacement: Some(format!(
            "{}{} --toolkit",
            word.text,
            if has("--silent") { "" } else { " --silent" }
        )),
        what: "the driver as well",
        is_kernel_only: false,
    })
}

/// `amdgpu-install`, which builds the kernel driver unless `--no-dkms` is given.
fn amdgpu_install(command: &ShellCommand) -> Option<DriverPackage> {
    let word = command.words.first().filter(|_| command.program() == "amdgpu-install")?;
    let skips_driver =
        command.has("--no-dkms") || command.has("--uninstall") || command.has("--list-usecase");
    (!skips_driver).then(|| DriverPackage {
        word: word.clone(),
        replacement: Some("amdgpu-install --no-dkms".to_owned()),
        what: "AMD's kernel driver",
        is_kernel_only: true,
    })
}

/// A package that installs the CUDA compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolkitPackage {
    /// The release, if the package's name or version contains it.
    pub version: Option<Version>,
    /// Whether this is the distribution's own package, whose release depends on the distribution.
    pub is_distribution: bool,
    /// The word that installs it.
    pub word: ShellWord,
}

/// The toolkit that a command installs, if it does.
#[must_use]
pub fn toolkit(command: &ShellCommand) -> Option<ToolkitPackage> {
    packages(command).iter().find_map(toolkit_package).or_else(|| {
        let word = command.words.iter().take(3).find(|word| has_extension(&word.text, "run"))?;
        let name = word.text.rsplit('/').next().unwrap_or_default();
        let version = name.strip_prefix("cuda_").and_then(|rest| rest.split('_').next()?.parse().ok())?;
        Some(ToolkitPackage { version: Some(version), is_distribution: false, word: word.clone() })
    })
}

fn toolkit_package(package: &PackageRow<'_>) -> Option<ToolkitPackage> {
    let make = |version: Option<Version>| ToolkitPackage {
        version,
        is_distribution: false,
        word: package.word.clone(),
    };
    let name = package.name;
    if package.manager == PackageManager::System && name == "nvidia-cuda-toolkit" {
        return Some(ToolkitPackage { is_distribution: true, ..make(None) });
    }
    let starts = match package.manager {
        PackageManager::System | PackageManager::Arch => {
            &["cuda-toolkit", "cuda-nvcc", "cuda-compiler", "cuda-minimal-build", "cuda"][..]
        }
        PackageManager::Conda => {
            &["cuda-toolkit", "cuda-nvcc", "cuda-compiler", "cuda", "cudatoolkit-dev"][..]
        }
        PackageManager::Pip => {
            &["nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu11", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc-cu13"][..]
        }
    };
    let rest = starts.iter().find_map(|start| {
        let rest = name.strip_prefix(start)?;
        let is_whole =
            rest.is_empty() || is_release(rest) || rest.bytes().skip(1).all(|byte| byte.is_ascii_digit());
        is_whole.then_some(rest)
    })?;
    let requested = package.word.text.split_once('=').and_then(|(_, version)| Version::find_in(version));
    let named = is_release(rest).then(|| rest[1..].replace('-', ".").parse().ok()).flatten();
    Some(make(requested.or(named)))
}

/// The word with which a command installs a Vulkan loader or tools.
#[must_use]
pub fn vulkan(command: &ShellCommand) -> Option<&ShellWord> {
    let names =
        ["libvulkan1", "vulkan-loader", "vulkan-tools", "libvulkan-dev", "vulkan-icd-loader", "vulkan-utils"];
    packages(command).into_iter().find(|package| names.contains(&package.name)).map(|package| package.word)
}

#[cfg(test)]
mod tests {
    use super::super::tests::of;
    use super::*;

    #[test]
    fn drivers_are_distinguished_from_toolkits() {
        for (text, expected) in [
            ("apt-get install -y cuda", Some("cuda -> cuda-toolkit")),
            ("apt-get -y --no-install-recommends install cuda-12-4", Some("cuda-12-4 -> cuda-toolkit-12-4")),
            ("apt install cuda=12.4.1-1", Some("cuda=12.4.1-1 -> cuda-toolkit-12-4")),
            ("dnf install -y cuda-drivers-550", Some("cuda-drivers-550")),
            ("apt install -y nvidia-driver-535 curl", Some("nvidia-driver-535")),
            ("apt install -y libnvidia-compute-535", Some("libnvidia-compute-535")),
            ("pacman -S --noconfirm nvidia", Some("nvidia")),
            (
                "sh cuda_12.2.0_535.54.03_linux.run --silent",
                Some("cuda_12.2.0_535.54.03_linux.run -> cuda_12.2.0_535.54.03_linux.run --toolkit"),
            ),
            ("sh ./cuda_12.2.0_535.54.03_linux.run --silent --toolkit", None),
            ("./NVIDIA-Linux-x86_64-550.54.14.run --silent", Some("./NVIDIA-Linux-x86_64-550.54.14.run")),
            ("amdgpu-install -y --usecase=rocm", Some("amdgpu-install -> amdgpu-install --no-dkms")),
            ("amdgpu-install -y --usecase=rocm --no-dkms", None),
            (
                "apt-get install -y cuda-toolkit-12-4 cuda-keyring cuda-nvcc-12-4 cuda-cudart-dev-12-4 cuda-compat-12-4",
                None,
            ),
            ("apt-get install nvidia-cuda-toolkit nvidia-container-toolkit", None),
            ("apt-get remove cuda", None),
            ("conda install -c nvidia cuda", None),
            ("wget https://x/cuda_12.2.0_535.54.03_linux.run", None),
            ("echo apt install cuda", None),
        ] {
            let seen = driver(&of(text)[0]).map(|driver| {
                driver.replacement.map_or(driver.word.text.clone(), |replacement| {
                    format!("{} -> {replacement}", driver.word.text)
                })
            });
            assert_eq!(seen.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn toolkits_are_recognized_with_their_release() {
        for (text, expected) in [
            ("apt-get install -y cuda-toolkit-12-4", Some("12.4")),
            ("apt-get install -y gcc cuda-nvcc-11-8", Some("11.8")),
            ("apt-get install -y cuda-toolkit", Some("?")),
            ("apt-get install -y nvidia-cuda-toolkit", Some("distribution")),
            ("conda install -y -c nvidia/label/cuda-12.1.0 cuda-toolkit", Some("?")),
            ("micromamba create -n x cuda-nvcc=12.6", Some("12.6")),
            ("pip install nvidia-cuda-nvcc-cu12", Some("?")),
            ("sh cuda_12.2.0_535.54.03_linux.run --silent --toolkit", Some("12.2.0")),
            ("apt-get install -y cuda-cudart-12-4 cuda-keyring", None),
            ("apt-get install -y cuda-12-4", Some("12.4")),
        ] {
            let seen = toolkit(&of(text)[0]).map(|toolkit| {
                let version = toolkit.version.map_or("?".to_owned(), |version| version.to_string());
                if toolkit.is_distribution { "distribution".to_owned() } else { version }
            });
            assert_eq!(seen.as_deref(), expected, "{text}");
        }
    }
}
