//! Compares the resolver with a second, naive implementation of the documented rules on random releases and machines. For each backend,
//! the second one filters all variants by the rules and compares the remaining ones with each other.

use std::collections::BTreeMap;

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::matrix::{Presence, Readiness};
use proptest::prelude::*;

use super::machine::{MachineDevice, ObservedMachine, ReleaseMachine};
use super::manifest::{
    Cuda, Layer, ReleaseManifest, ReleasePlatform, ReleaseVariant, RequiredLibc, Rocm, SCHEMA,
};
use super::resolve::{Devices, ResolveRequest, resolve};

const ORDER: [Backend; 7] = [
    Backend::Cuda,
    Backend::Rocm,
    Backend::Metal,
    Backend::Vulkan,
    Backend::Sycl,
    Backend::Opencl,
    Backend::Cpu,
];

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// `Some(translated)` if the variant may be selected for the backend.
fn is_eligible(request: &ResolveRequest<'_>, variant: &ReleaseVariant, backend: Backend) -> Option<bool> {
    let machine = request.machine;
    let rank = |text: &str| text.rsplit('v').next().unwrap().parse::<u32>().unwrap_or(1);
    let starts = variant.backends.contains(&backend)
        && request.variant.is_none_or(|(label, _)| label == variant.label)
        && request.backend.is_none_or(|(wanted, _)| wanted == backend)
        && variant.libc.as_ref().is_none_or(|needs| {
            machine.libc.as_ref().is_none_or(|(family, found)| {
                *family == needs.family && found.as_ref().is_none_or(|found| *found >= needs.version)
            })
        })
        && variant.os.as_ref().is_none_or(|needs| machine.os.as_ref().is_some_and(|os| os >= needs))
        && variant.cpu.as_ref().is_none_or(|needs| match &machine.cpu {
            Some(cpu) => rank(cpu) >= rank(needs),
            None => rank(needs) == 1,
        });
    if !starts {
        return None;
    }
    if backend == Backend::Cpu {
        let requested_by_name_only = request.variant.is_some() && request.backend.is_none();
        let has_more = variant.backends.iter().any(|one| *one != Backend::Cpu);
        return (!(requested_by_name_only && has_more)).then_some(false);
    }
    let seen = machine.backends.get(&backend)?;
    if seen.hardware != Presence::Present || seen.run == Readiness::Blocked {
        return None;
    }
    if let (Backend::Cuda, Some(cuda)) = (backend, &variant.cuda)
        && seen.driver.as_ref().is_some_and(|driver| *driver < cuda.driver)
    {
        return None;
    }
    let each: Vec<Option<bool>> =
        seen.devices.iter().map(|device| runs_on_device(variant, backend, seen, device)).collect();
    match request.devices {
        _ if each.is_empty() => Some(false),
        Devices::All => each.iter().try_fold(false, |any, one| one.map(|translated| any || translated)),
        Devices::Any => each.into_iter().flatten().min(),
    }
}

fn runs_on_device(
    variant: &ReleaseVariant,
    backend: Backend,
    seen: &ObservedMachine,
    device: &MachineDevice,
) -> Option<bool> {
    match backend {
        Backend::Cuda => {
            let Some(arch) = &device.arch else { return variant.portable.then_some(false) };
            let number: u16 = arch.trim_start_matches("sm_").parse().unwrap();
            let code = variant.cuda.as_ref().unwrap();
            let on_chip = |number: u16| [53, 62, 72, 87, 110].contains(&number);
            let native = code.real.iter().any(|real| {
                real.number == number
                    || (real.suffix.is_none()
                        && !on_chip(number)
                        && !on_chip(real.number)
                        && real.number / 10 == number / 10
                        && real.number < number)
            });
            let translates = || {
                code.ptx.iter().any(|ptx| ptx.number <= number)
                    && seen.translates.as_ref().is_none_or(|newest| {
                        newest.release().parse::<Version>().unwrap() >= version(&code.release.release())
                    })
            };
            if native { Some(false) } else { translates().then_some(true) }
        }
        Backend::Rocm => match &device.arch {
            None => variant.portable.then_some(false),
            Some(arch) => variant.rocm.as_ref().unwrap().gfx.contains(arch).then_some(false),
        },
        _ => Some(false),
    }
}

/// Whether the first variant is better than the second for the same backend, according to the documented rules.
fn better(
    platform: &ReleasePlatform,
    driver_is_known: bool,
    one: (&ReleaseVariant, bool),
    other: (&ReleaseVariant, bool),
) -> bool {
    let rank = |variant: &ReleaseVariant| {
        variant.cpu.as_deref().map_or(0, |cpu| cpu.rsplit('v').next().unwrap().parse().unwrap_or(1))
    };
    let archs = |variant: &ReleaseVariant| {
        variant.cuda.as_ref().map_or(0, |cuda| cuda.real.len() + cuda.ptx.len())
            + variant.rocm.as_ref().map_or(0, |rocm| rocm.gfx.len())
    };
    let release = |variant: &ReleaseVariant| variant.cuda.as_ref().map(|cuda| cuda.release.clone());
    let ((a, a_translated), (b, b_translated)) = (one, other);
    if a_translated != b_translated {
        return b_translated;
    }
    let floor = |variant: &ReleaseVariant| variant.cuda.as_ref().map(|cuda| cuda.driver.clone());
    if !driver_is_known && floor(a) != floor(b) {
        return floor(a) < floor(b);
    }
    if a.portable != b.portable {
        return b.portable;
    }
    if archs(a) != archs(b) {
        return archs(a) < archs(b);
    }
    if a.backends.len() != b.backends.len() {
        return a.backends.len() < b.backends.len();
    }
    if release(a) != release(b) {
        return release(a) > release(b);
    }
    if rank(a) != rank(b) {
        let (a, b): (u32, u32) = (rank(a), rank(b));
        return a > b;
    }
    if a.size() != b.size() {
        return a.size() < b.size();
    }
    if (a.label == platform.default) != (b.label == platform.default) {
        return a.label == platform.default;
    }
    a.label < b.label
}

/// All backends: the publisher's first, then the others in the documented order.
fn order(platform: &ReleasePlatform) -> Vec<Backend> {
    let mut backends = ORDER.to_vec();
    backends.sort_indirect_by_key(|backend| {
        platform.prefer.iter().position(|one| one == backend).unwrap_or(platform.prefer.len())
    });
    backends
}

fn expected(request: &ResolveRequest<'_>) -> Option<(String, Backend)> {
    let platform = request.manifest.platforms.get(&request.machine.platform)?;
    for backend in order(platform) {
        let eligible: Vec<(&ReleaseVariant, bool)> = platform
            .variants
            .iter()
            .filter_map(|variant| Some((variant, is_eligible(request, variant, backend)?)))
            .collect();
        let best = eligible.iter().find(|one| {
            let known = backend == Backend::Cpu || request.machine.backends[&backend].driver.is_some();
            eligible
                .iter()
                .all(|other| one.0.label == other.0.label || better(platform, known, **one, *other))
        });
        if let Some((variant, _)) = best {
            return Some((variant.label.clone(), backend));
        }
        assert!(eligible.is_empty(), "the rules are not a total order: {eligible:?}");
    }
    None
}

fn pick<T: Clone + std::fmt::Debug + 'static>(all: &[T]) -> impl Strategy<Value = T> + use<T> {
    proptest::sample::select(all.to_vec())
}

fn some_of<T: Clone + std::fmt::Debug + 'static>(
    all: &[T],
    least: usize,
) -> impl Strategy<Value = Vec<T>> + use<T> {
    proptest::sample::subsequence(all.to_vec(), least..=all.len())
}

fn arch(text: &str) -> CudaArch {
    text.parse().unwrap()
}

fn variants() -> impl Strategy<Value = ReleaseVariant> {
    let reals = ["75", "80", "86", "87", "89", "90", "90a", "100", "120"].map(arch);
    let cuda = (
        pick(&["12.4", "12.8", "13.0"]),
        pick(&["525.60", "550.54", "580.65"]),
        some_of(&reals, 0),
        some_of(&["75", "90", "120"].map(arch), 0),
    )
        .prop_map(|(release, driver, real, ptx)| Cuda {
            release: version(release),
            driver: version(driver),
            real,
            ptx,
        });
    let rocm = some_of(&["gfx1030", "gfx1100", "gfx90a", "gfx942"].map(str::to_owned), 0)
        .prop_map(|gfx| Rocm { gfx });
    let libc = pick(&[("glibc", "2.28"), ("glibc", "2.35"), ("glibc", "2.39"), ("musl", "1.2")])
        .prop_map(|(family, oldest)| RequiredLibc { family: family.to_owned(), version: version(oldest) });
    (
        some_of(&Backend::ALL, 1),
        any::<bool>(),
        cuda,
        rocm,
        proptest::option::of(libc),
        proptest::option::of(pick(&["x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v4"])),
        1_u64..4,
    )
        .prop_map(|(backends, portable, cuda, rocm, libc, cpu, size)| ReleaseVariant {
            label: String::new(),
            cuda: backends.contains(&Backend::Cuda).then_some(cuda),
            rocm: backends.contains(&Backend::Rocm).then_some(rocm),
            backends,
            portable,
            libc,
            cpu: cpu.map(str::to_owned),
            layers: vec![Layer { sha256: "0".repeat(64), size, unpacked: size }],
            ..ReleaseVariant::default()
        })
}

fn manifests() -> impl Strategy<Value = ReleaseManifest> {
    let gpus: Vec<Backend> = ORDER.into_iter().filter(|backend| *backend != Backend::Cpu).collect();
    let prefer = proptest::option::weighted(0.4, proptest::sample::subsequence(gpus, 0..=3).prop_shuffle());
    (proptest::collection::vec(variants(), 1..8), prefer).prop_map(|(mut all, prefer)| {
        for (index, variant) in all.iter_mut().enumerate() {
            variant.label = format!("v{index}");
        }
        let platform =
            ReleasePlatform { default: "v0".to_owned(), prefer: prefer.unwrap_or_default(), variants: all };
        ReleaseManifest {
            schema: SCHEMA.to_owned(),
            name: "x".to_owned(),
            version: "1".to_owned(),
            serial: 1,
            expires: u64::MAX,
            platforms: BTreeMap::from([("linux-x86_64".to_owned(), platform)]),
        }
    })
}

fn seen(archs: &'static [&'static str]) -> impl Strategy<Value = ObservedMachine> {
    let device = proptest::option::weighted(0.9, pick(archs))
        .prop_map(|arch| MachineDevice { name: "card".to_owned(), arch: arch.map(str::to_owned) });
    (
        pick(&[Presence::Present, Presence::Present, Presence::Absent, Presence::Unknown]),
        pick(&[Readiness::Ready, Readiness::Ready, Readiness::Blocked, Readiness::Unknown]),
        proptest::option::of(pick(&["520.10", "535.104", "550.54", "570.26", "580.65"])),
        proptest::option::of(pick(&["12.2", "12.4", "12.8", "13.0"])),
        proptest::collection::vec(device, 0..3),
    )
        .prop_map(|(hardware, run, driver, translates, devices)| ObservedMachine {
            hardware,
            run,
            reasons: Vec::new(),
            driver: driver.map(version),
            translates: translates.map(version),
            devices,
        })
}

fn machines() -> impl Strategy<Value = ReleaseMachine> {
    let libc =
        pick(&[("glibc", "2.31"), ("glibc", "2.35"), ("glibc", "2.41"), ("musl", "1.2"), ("glibc", "")]);
    let cards: &'static [&'static str] =
        &["sm_61", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_120"];
    let gfx: &'static [&'static str] = &["gfx803", "gfx1030", "gfx1100", "gfx90a", "gfx942"];
    let others = (seen(&["x"]), seen(&["x"]), seen(&["x"]), seen(&["x"]));
    (
        proptest::option::of(libc),
        proptest::option::of(pick(&["x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v4"])),
        seen(cards),
        seen(gfx),
        others,
    )
        .prop_map(|(libc, cpu, cuda, rocm, others)| ReleaseMachine {
            platform: "linux-x86_64".to_owned(),
            libc: libc.map(|(family, found)| (family.to_owned(), found.parse().ok())),
            os: None,
            cpu: cpu.map(str::to_owned),
            backends: BTreeMap::from([
                (Backend::Cuda, cuda),
                (Backend::Rocm, rocm),
                (Backend::Metal, others.0),
                (Backend::Vulkan, others.1),
                (Backend::Sycl, others.2),
                (Backend::Opencl, others.3),
            ]),
        })
}

/// The number of random cases. `GPUBUILD_CASES` overrides it; `.ci/run` sets it to 100,000.
fn cases() -> u32 {
    #[expect(clippy::disallowed_methods, reason = "the number of cases of a test")]
    let requested = std::env::var("GPUBUILD_CASES").ok().and_then(|text| text.parse().ok());
    requested.unwrap_or(5_000)
}

#[test]
fn the_resolver_follows_the_documented_rules() {
    let config = ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let wanted = proptest::option::weighted(0.2, pick(&Backend::ALL));
    let label = proptest::option::weighted(0.1, pick(&["v0", "v1", "v9"]));
    let any = any::<bool>();
    let (mut chosen, mut none) = (0_u32, 0_u32);
    let counted = std::cell::RefCell::new((&mut chosen, &mut none));
    runner
        .run(&(manifests(), machines(), wanted, label, any), |(manifest, machine, wanted, label, any)| {
            let request = ResolveRequest {
                manifest: &manifest,
                machine: &machine,
                devices: if any { Devices::Any } else { Devices::All },
                backend: wanted.map(|backend| (backend, "--backend")),
                variant: label.map(|label| (label, "--variant")),
                excluded: &[],
            };
            let variants = manifest.platforms["linux-x86_64"].variants.len();
            let found = resolve(&request);
            prop_assert_eq!(&found, &resolve(&request), "a second call");
            match &found {
                Ok(choice) => {
                    prop_assert_eq!(choice.rejected.len() + 1, variants, "one reason per rejected variant");
                    prop_assert!(choice.rejected.iter().all(|one| one.reason.ends_with(']')), "{choice:?}");
                    *counted.borrow_mut().0 += 1;
                }
                Err(nothing) => {
                    prop_assert_eq!(nothing.rejected.len(), variants);
                    prop_assert!(nothing.rejected.iter().all(|one| one.reason.ends_with(']')), "{nothing:?}");
                    *counted.borrow_mut().1 += 1;
                }
            }
            // Every better backend whose hardware is present is reported.
            if let Ok(choice) = &found {
                let platform = &manifest.platforms["linux-x86_64"];
                for backend in order(platform).into_iter().take_while(|backend| *backend != choice.backend) {
                    let here =
                        machine.backends.get(&backend).is_some_and(|seen| seen.hardware == Presence::Present);
                    prop_assert_eq!(
                        here,
                        choice.fallback.iter().any(|one| one.backend == backend),
                        "{:?}",
                        backend
                    );
                }
            }
            prop_assert_eq!(found.ok().map(|choice| (choice.label, choice.backend)), expected(&request));
            Ok(())
        })
        .unwrap();
    assert!(chosen > cases() / 4 && none > cases() / 50, "{chosen} with a choice, {none} without");
}
