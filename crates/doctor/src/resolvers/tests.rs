use gpubuild_detect::toolkit::{self, description::ToolkitKind};
use gpubuild_host::{Arch, Os, RecordedHost};

use super::*;

#[test]
fn embedded_files_are_consistent() {
    let catalogue = Catalogue::embedded();
    let mut ids = std::collections::BTreeSet::new();
    for family in families() {
        let description = catalogue.get(&family.toolkit).unwrap_or_else(|| panic!("{}", family.toolkit));
        assert_eq!(description.kind, ToolkitKind::Sdk);
        assert!(description.backends.contains(&family.backend), "{}", family.toolkit);
        for resolver in &family.resolvers {
            assert!(ids.insert(&resolver.id), "{} is defined twice", resolver.id);
            let dated = resolver.source.contains("202") || resolver.source.starts_with("docs/");
            assert!(dated, "{} does not say when its source was read", resolver.id);
            assert!(
                resolver.tool.as_ref().is_none_or(|tool| catalogue.get(tool).is_some()),
                "{}",
                resolver.id
            );
        }
        let parts = |template: &str| {
            let names = template.split('{').skip(1).filter_map(|rest| rest.split('}').next());
            names.map(|name| name.strip_prefix("in:").unwrap_or(name).to_owned()).collect::<Vec<_>>()
        };
        let templates = (family.lines.iter())
            .flat_map(|line| line.set.values().chain(line.prepend.values()).chain(&line.source))
            .chain(family.resolvers.iter().filter_map(|one| Some(&one.otherwise.as_ref()?.remedy)));
        for part in templates.flat_map(|template| parts(template)) {
            assert!(part == "root" || description.parts.contains_key(&part), "{}: `{part}`", family.toolkit);
        }
        assert!(family.resolvers[0].root[0].gpubuild, "gpubuild's own choice comes first");
    }
}

#[test]
fn recordings_contain_the_variables_that_resolvers_read() {
    let variables = families().iter().flat_map(|family| &family.resolvers).flat_map(|resolver| {
        resolver.compiler.iter().chain(&resolver.root).flat_map(|step| {
            step.env.iter().chain(&step.with_env).chain(&step.unless_env).chain(&step.unless_place)
        })
    });
    let mut builder = RecordedHost::builder(Os::Linux, Arch::X86_64);
    let mut names = Vec::new();
    for name in variables {
        builder = builder.env(name, "/somewhere");
        names.push(name.clone());
    }
    assert!(names.len() > 40);
    let (recording, _) = gpubuild_host::record(&builder.build(), &[], |_| ());
    for name in names {
        assert!(recording.env.contains_key(&name), "{name} is missing in the recording");
    }
}

#[test]
fn machine_without_toolkits_has_no_agreements() {
    let host = RecordedHost::builder(Os::Linux, Arch::X86_64).env("PATH", "/usr/bin").build();
    let catalogue = Catalogue::embedded();
    let resolutions = resolve_all(&host, &toolkit::probe(&host, &catalogue), &catalogue);
    assert!(resolutions.agreements.is_empty() && resolutions.agree());
    assert!(resolutions.list.iter().all(|one| one.takes.is_none() && one.error.is_some()));
    assert!(resolutions.copies("cuda").is_empty());
}
