//! `report --html`: the page of a host, in a real browser.

use gpubuild::report::doctor::DoctorReport;
use gpubuild::report::page::{Inset, page};
use gpubuild::report::timings::{TimingsForm, TimingsReport as Timings, TimingsSubject};
use gpubuild_detect::finding::{Evidence, Finding, Remedy, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{InspectHost, ReadFiles, WriteFiles};
use gpubuild_plan::machine;

use crate::support::project;
use crate::timings::{SLOW, browse, recorded};

const EVIL: &str = "we\"ird' </script></iframe><script>document.title='broken'</script>\
                    <img src=x onerror=\"console.error(1)\"> @@TITLE@@ & more";

/// The report of this machine with a finding that contains hostile text in every field.
fn document(host: &dyn InspectHost) -> DoctorReport {
    let machine = machine::inspect(host, Catalogue::embedded());
    let evil = || EVIL.to_owned();
    let finding = Finding {
        id: id!("cuda.host.gcc-too-new"),
        severity: Severity::Error,
        backend: None,
        affects: Vec::new(),
        summary: evil(),
        evidence: vec![Evidence::file(EVIL, EVIL)],
        remedy: Remedy {
            text: evil(),
            commands: vec![evil(), "second".to_owned()],
            needs: vec!["sudo".to_owned()],
            verify: Some(evil()),
            ..Remedy::default()
        },
        links: vec!["https://example.org/?a=\"><script>".to_owned(), "javascript:alert(1)".to_owned()],
        consequences: Vec::new(),
    };
    DoctorReport::of_machine(&machine.facts, &machine.matrix, &gpubuild_core::Backend::ALL, vec![finding])
}

#[test]
fn host_page_renders_hostile_text_without_errors() {
    let Some(project) = project(SLOW) else { return };
    let recording = recorded(&project);
    let about = TimingsSubject { project: EVIL, success: true, processors: Some(2) };
    let timings = Timings::new(about, &recording).render(TimingsForm::Page).unwrap();
    let timings = Inset { name: "timings.html".to_owned(), text: timings };
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"60\" height=\"20\"><script>console.error(2)</script>\
               <rect width=\"60\" height=\"20\" fill=\"#3465a4\"/></svg>";
    let plot = Inset { name: EVIL.to_owned(), text: svg.to_owned() };
    let text = page(&document(&project.host), &[], Some(&timings), &[plot]);
    assert!(text.len() > 10_000 && !text.contains("@@TITLE@@</title>"));
    for outside in ["src=\"http", "href=\"http://", "href=\"javascript", "@import", "<link rel=\"stylesheet"]
    {
        assert!(!text.contains(outside), "the page loads nothing from outside: {outside}");
    }
    let file = project.path("machine.html");
    project.host.write(&file, text.as_bytes()).unwrap();
    let address = format!("file://{file}");
    let Some(dom) = browse(&project, &["--dump-dom".to_owned(), address.clone()]) else { return };
    let dom = dom.stdout;
    assert!(dom.contains("<title>gpubuild: "), "the title is unchanged");
    assert!(!dom.contains("<img src=\"x\"") && !dom.contains("<script>document.title"), "{dom}");
    let (_, table) = dom.split_once("<tbody>").unwrap();
    let rows = table.split_once("</tbody>").unwrap().0;
    assert_eq!(rows.matches("<th scope=\"row\">").count(), 7, "one row per backend");
    assert!(dom.contains("<iframe title=\"Timings of the build\" sandbox=\"allow-scripts\""));
    assert!(
        dom.contains("<html lang=\"en\">")
            && dom.contains("<caption>")
            && dom.contains("alt=\"Plot of gpubuild bench")
    );
    // Screenshots in the light and dark themes.
    for (name, scheme) in [
        ("light.png", "--blink-settings=preferredColorScheme=1"),
        ("dark.png", "--blink-settings=preferredColorScheme=0"),
    ] {
        let picture = project.path(name);
        let arguments = [
            format!("--screenshot={picture}"),
            "--window-size=1200,1600".to_owned(),
            scheme.to_owned(),
            address.clone(),
        ];
        browse(&project, &arguments);
        let bytes = project.host.read(&picture).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{} bytes", bytes.len());
    }
}

/// A color of the page by its CSS variable, as red, green, blue.
fn colour(style: &str, name: &str) -> [f64; 3] {
    let (_, rest) = style.split_once(&format!("--{name}: #")).unwrap_or_else(|| panic!("--{name}"));
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&rest[at..at + 2], 16).unwrap()) / 255.0)
}

/// The contrast ratio of two colors as WCAG 2 defines it.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let luminance = |colour: [f64; 3]| {
        let linear = |value: f64| {
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = colour.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    };
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    if one > other { one / other } else { other / one }
}

#[test]
fn page_text_has_enough_contrast_in_both_themes() {
    let text = page(&DoctorReport::of_findings(Vec::new()), &[], None, &[]);
    let (light, dark) = text.split_once("prefers-color-scheme: dark").unwrap();
    for style in [light, dark] {
        for back in ["back", "panel"] {
            for front in ["text", "faint", "good", "bad", "warn", "plain", "focus"] {
                let found = contrast(colour(style, back), colour(style, front));
                assert!(found >= 4.5, "{front} on {back}: {found:.2}");
            }
        }
    }
}
