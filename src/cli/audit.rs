//! `gpubuild audit`: what was built against what was promised.

use std::collections::BTreeMap;

use gpubuild_core::isa;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::catalogue::Subject;
use gpubuild_detect::finding::{Draft, Finding, Findings, Kind, Severity};
use gpubuild_detect::tell::Teller;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::exec;
use gpubuild_host::Host;
use gpubuild_plan::artifacts::manifest_path;
use gpubuild_plan::artifacts::{BuiltTree, Manifest};
use gpubuild_plan::plan::bytes;
use gpubuild_plan::project::{AuditTable, Project};

use super::doctor::FailOn;
use super::doctor::output::OutputArguments;
use super::look::{self, Sight};
use super::{Context, Exit, Failure};
use crate::audit::{self, Audit, Depth, Limits, Request};
use crate::report::Schema;
use crate::report::doctor::Document;

/// Code for the build machine's processor.
const NATIVE: &str = "audit.isa.native";

/// Findings of one file that a build tells when it is done.
const TOLD_BY_BUILD: [&str; 5] = [
    "audit.isa.above-promise",
    NATIVE,
    "audit.rpath.stubs",
    "audit.needed.missing",
    "audit.needed.other-copy",
];

/// Arguments of `audit`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Executables, libraries and object files to look into [default: everything that the last build produced]
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// Folder of the project [default: the nearest gpubuild.toml from here up]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Level or processor that code for everybody keeps to: `x86-64-v3`, `haswell`, `armv8.2-a+dotprod`
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// Newest glibc that may be needed: `2.28`
    #[arg(long, value_name = "VERSION")]
    glibc: Option<String>,
    /// Largest file: `200MiB`
    #[arg(long, value_name = "SIZE")]
    max_size: Option<String>,
    /// Findings to accept: ids separated by commas, or groups as `audit.rpath.*`
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    allow: Vec<String>,
    /// End with status 1 from this severity on
    #[arg(long, value_enum, default_value_t, value_name = "SEVERITY")]
    fail_on: FailOn,
    #[command(flatten)]
    output: OutputArguments,
}

impl Arguments {
    /// Whether the answer is a document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.output.is_json()
    }
}

/// Looks into the files and tells.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    arguments.output.check()?;
    let project = match look::project(context, arguments.project.as_deref()) {
        Ok(project) => Some(project),
        Err(failure)
            if failure.id == "project.not-found"
                && !arguments.files.is_empty()
                && arguments.project.is_none() =>
        {
            None
        }
        Err(failure) => return Err(failure),
    };
    let table = project.as_ref().map(|project| project.file.audit.clone()).unwrap_or_default();
    let limits = limits(arguments, &table, context.host)?;
    let mut request = Request { limits, ..Request::default() };
    if let (true, Some(project)) = (arguments.files.is_empty(), &project) {
        of_build(&mut request, project, context)?;
    }
    for file in &arguments.files {
        request.files.push(super::absolute(context, file)?);
    }
    let result = audit::examine(context.host, &request);
    let facts = gpubuild_detect::facts::gather(context.host);
    let catalogue = Catalogue::embedded();
    let findings = Findings::embedded();
    let is_root = context.host.identity().uid == Some(0);
    let teller = Teller::new(&facts, &catalogue, &findings, is_root);
    let allowed: Vec<&String> = arguments.allow.iter().chain(&table.allow).collect();
    for pattern in &allowed {
        known(pattern, &findings)?;
    }
    let mut document = Document::of_findings(tell(&result, &teller, &findings, &allowed));
    document.schema = Schema { name: "audit", version: 1 };
    document.files = result.files;
    let of_audit = |(family, id, _): &(&gpubuild_detect::finding::catalogue::Family, &str, &_)| {
        family.subject == Subject::Audit && !allows(&allowed, id)
    };
    document.checked = findings.iter().filter(of_audit).map(|(_, id, _)| id.to_owned()).collect();
    document.checked.sort();
    arguments.output.deliver(&document, context)?;
    Ok(super::doctor::exit(arguments.fail_on, &document))
}

/// What the last build of a project produced.
fn of_build(request: &mut Request, project: &Project, context: &Context<'_>) -> Result<(), Failure> {
    let path = manifest_path(&project.build_root);
    let manifest = Manifest::read(context.host, &path).map_err(|error| {
        Failure::usage(error.id(), error.to_string())
            .hint("`gpubuild build` makes it; `gpubuild audit FILE` looks into any file")
    })?;
    request.manifest = Some(manifest);
    request.program = exec::binary::last_built(context.host, &project.build_root)
        .filter(|program| context.host.is_file(&context.host.path(&program.path)));
    Ok(())
}

fn known(pattern: &str, findings: &Findings) -> Result<(), Failure> {
    let mut ids = findings.iter().map(|(_, id, _)| id);
    if ids.any(|id| gpubuild_detect::finding::catalogue::matches(pattern, id)) {
        return Ok(());
    }
    Err(Failure::usage("audit.allow-unknown", format!("no finding is called `{pattern}`"))
        .hint("docs/findings.md lists all of them; those of this command begin with `audit.`"))
}

fn allows(allowed: &[&String], id: &str) -> bool {
    allowed.iter().any(|pattern| gpubuild_detect::finding::catalogue::matches(pattern, id))
}

/// What the files have to keep to: flags before the project's file.
fn limits(arguments: &Arguments, table: &AuditTable, host: &dyn Host) -> Result<Limits, Failure> {
    let chosen = |flag: &Option<String>, name: &str, key: &str, value: &Option<String>| {
        let from_flag = flag.clone().map(|text| (text, name.to_owned()));
        from_flag.or_else(|| value.clone().map(|text| (text, format!("{key} in gpubuild.toml"))))
    };
    let cpu = chosen(&arguments.cpu, "--cpu", "[audit] cpu", &table.cpu);
    if let Some((name, from)) = &cpu {
        let known = ["x86_64", "aarch64"].iter().filter_map(|name| isa::table().processor(name));
        if !known.clone().any(|processor| processor.cpu(name).is_some()) {
            let names: Vec<&str> = isa::table()
                .processor(host.platform().arch.id())
                .into_iter()
                .flat_map(isa::Processor::cpus)
                .collect();
            return Err(Failure::usage(
                "audit.cpu-unknown",
                format!("no processor is called `{name}` (from {from})"),
            )
            .hint(format!("known are {}", names.join(", "))));
        }
    }
    let mut versions = BTreeMap::new();
    let floors = [
        ("GLIBC", chosen(&arguments.glibc, "--glibc", "[audit] glibc", &table.glibc)),
        ("GLIBCXX", chosen(&None, "", "[audit] glibcxx", &table.glibcxx)),
        ("CXXABI", chosen(&None, "", "[audit] cxxabi", &table.cxxabi)),
    ];
    for (kind, floor) in floors {
        let Some((text, from)) = floor else { continue };
        let version: Version = text.parse().map_err(|_| {
            Failure::usage("audit.version-invalid", format!("`{text}` is no version (from {from})"))
                .hint("write it as `2.28`")
        })?;
        versions.insert(kind.to_owned(), version);
    }
    let max_size = chosen(&arguments.max_size, "--max-size", "[audit] max_size", &table.max_size);
    let max_size = max_size
        .map(|(text, from)| {
            bytes::parse(&text).map(|size| (size, text.clone())).ok_or_else(|| {
                Failure::usage("audit.size-invalid", format!("`{text}` is no size (from {from})"))
                    .hint("write it as `200MiB`")
            })
        })
        .transpose()?;
    Ok(Limits { cpu, versions, max_size })
}

/// The findings in words, the worst and most basic first.
fn tell(audit: &Audit, teller: &Teller<'_>, findings: &Findings, allowed: &[&String]) -> Vec<Finding> {
    let rank = |draft: &Draft| {
        findings.find(&draft.id).map_or(0, |(family, entry)| entry.rank.unwrap_or(family.rank))
    };
    let severity = |draft: &Draft| match findings.get(&draft.id).map_or(Kind::Fault, |entry| entry.kind) {
        Kind::Fault | Kind::Absence => Severity::Error,
        Kind::Caution => Severity::Warning,
        Kind::Note => Severity::Info,
    };
    let mut drafts: Vec<&Draft> = audit.drafts.iter().filter(|draft| !allows(allowed, &draft.id)).collect();
    drafts.sort_by_key(|draft| (severity(draft), rank(draft)));
    drafts.into_iter().map(|draft| teller.tell(draft, severity(draft))).collect()
}

/// What a build has to say about its own result: what would keep others from starting it.
pub(super) fn after_build(
    context: &Context<'_>,
    project: &Project,
    sight: &Sight,
    outcome: &exec::Outcome,
) -> Vec<Finding> {
    let table = &project.file.audit;
    let limits = Limits {
        cpu: table.cpu.clone().map(|name| (name, "[audit] cpu in gpubuild.toml".to_owned())),
        ..Limits::default()
    };
    let request = Request {
        files: Vec::new(),
        manifest: Some(outcome.manifest.clone()),
        program: outcome.program.clone(),
        limits,
        depth: Depth::Build,
    };
    let result = audit::examine(context.host, &request);
    let findings = Findings::embedded();
    let teller = Teller::new(&sight.facts, &sight.catalogue, &findings, false);
    let allowed: Vec<&String> = table.allow.iter().collect();
    let mut told = tell(&result, &teller, &findings, &allowed);
    // Who asks for this machine's processor knows; a project may do it by itself.
    let processor = isa::table().processor(context.host.platform().arch.id());
    let asked = |tree: &BuiltTree| processor.is_some_and(|known| known.options(&tree.cache).0.native);
    let is_asked = outcome.manifest.trees.iter().any(asked);
    told.retain(|finding| {
        TOLD_BY_BUILD.contains(&finding.id.as_str()) && !(is_asked && finding.id == NATIVE)
    });
    told
}
