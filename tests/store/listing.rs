//! Lists of entries that registries and object storage send in pages.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::server::{Answer, Server};
use crate::support::{Machine, Ran};

/// The id of an entry.
fn id(number: usize) -> String {
    format!("{number:064x}")
}

fn answer(status: u16, body: &str) -> Answer {
    (status, String::new(), body.to_owned())
}

/// A machine whose shared store is a repository on this server.
fn with_registry(server: &Server) -> Option<Machine> {
    Machine::new(&format!("oci://{}/team/store", server.root().trim_start_matches("http://")))
}

/// A registry whose tags are these numbers, in pages of two. `link` makes the target of the link to the next page.
fn registry(
    tags: &Arc<Mutex<BTreeSet<usize>>>,
    link: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Server {
    let tags = Arc::clone(tags);
    let image = |tag: usize| {
        let config = format!(
            r#"{{"mediaType":"application/vnd.gpubuild.store.entry.v1+json","digest":"sha256:{}","size":2}}"#,
            id(0)
        );
        format!(r#"{{"schemaVersion":2,"config":{config},"layers":[],"annotations":{{"tag":"{tag}"}}}}"#)
    };
    Server::answering(move |request| {
        let mut tags = tags.lock().unwrap();
        let (method, path) = request.split_once(" /v2/team/store/").unwrap_or_default();
        if let Some(query) = path.strip_prefix("tags/list") {
            let last = query.strip_prefix("?n=2&last=").and_then(|id| usize::from_str_radix(id, 16).ok());
            let mut rest = tags.iter().copied().filter(|tag| last.is_none_or(|last| *tag > last));
            let page: Vec<usize> = rest.by_ref().take(2).collect();
            let names: Vec<String> = page.iter().map(|tag| format!("\"{}\"", id(*tag))).collect();
            let next =
                rest.next().map(|_| link(&format!("/v2/team/store/tags/list?n=2&last={}", id(page[1]))));
            let headers = next.map(|next| format!("Link: <{next}>; rel=\"next\"\r\n")).unwrap_or_default();
            return (200, headers, format!("{{\"name\":\"team/store\",\"tags\":[{}]}}", names.join(",")));
        }
        let Some(version) = path.strip_prefix("manifests/") else { return answer(200, "{}") };
        let is_named = |tag: usize| id(tag) == version || version == digest(&image(tag));
        let found = tags.iter().copied().find(|tag| is_named(*tag));
        match (method, found) {
            (_, None) => answer(404, ""),
            ("DELETE", Some(tag)) => {
                tags.remove(&tag);
                answer(202, "")
            }
            (_, Some(tag)) => answer(200, &image(tag)),
        }
    })
}

fn digest(text: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(text.as_bytes());
    hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn entries(machine: &Machine) -> u64 {
    machine.run(&["cache", "stat", "--json"]).succeeds().json()["entries"].as_u64().unwrap()
}

/// The list is refused with this id, and the hint is not the one for entries.
#[track_caller]
fn refuses(machine: &Machine, id: &str, message: &str) {
    for arguments in [&["cache", "stat"][..], &["cache", "prune", "--remote", "--all"]] {
        let ran: Ran = machine.run(arguments).says(&format!("[{id}]")).says(message).says("hint: ");
        assert!(!ran.success && !ran.stderr.contains("write = true"), "{ran:?}");
    }
}

#[test]
fn every_page_of_a_registry_is_listed_and_pruned() {
    for absolute in [false, true] {
        let tags = Arc::new(Mutex::new((1..=5).collect()));
        let root = Arc::new(Mutex::new(String::new()));
        let own = Arc::clone(&root);
        let server = registry(&tags, move |path| format!("{}{path}", own.lock().unwrap()));
        if absolute {
            *root.lock().unwrap() = server.root();
        }
        let Some(machine) = with_registry(&server) else { return };
        assert_eq!(entries(&machine), 5);
        let pruned = machine.run(&["cache", "prune", "--remote", "--all", "--json"]).succeeds().json();
        assert_eq!((&pruned["removed"], &pruned["left"]), (&5.into(), &0.into()));
        assert!(tags.lock().unwrap().is_empty());
        assert_eq!(entries(&machine), 0);
    }
}

#[test]
fn lists_of_a_registry_end_and_stay_on_their_server() {
    let tags = Arc::new(Mutex::new((1..=5).collect()));
    let other = Server::start();
    let to = other.root();
    let server = registry(&tags, move |path| format!("{to}{path}"));
    let Some(machine) = with_registry(&server) else { return };
    refuses(&machine, "remote.redirected", "tags/list");
    assert_eq!(other.requests(), Vec::<String>::new());
    for (link, message) in [
        ("/v2/team/store/tags/list", "followed by an earlier one"),
        ("ftp://host/", "only https and http"),
        ("/v2/team/store/tags/list?n=2&last=%zz |", "percent-encoded"),
    ] {
        let server = registry(&tags, move |_| link.to_owned());
        let Some(machine) = with_registry(&server) else { return };
        refuses(&machine, "remote.damaged", message);
    }
    let endless = Server::answering(|request| {
        if !request.contains("tags/list") {
            return answer(404, "");
        }
        let page: usize = request.rsplit_once("last=").map_or(0, |(_, page)| page.parse().unwrap());
        let next = format!("Link: </v2/team/store/tags/list?last={}>; rel=\"next\"\r\n", page + 1);
        (200, next, "{\"tags\":[]}".to_owned())
    });
    let Some(machine) = with_registry(&endless) else { return };
    refuses(&machine, "remote.damaged", "more than 1000 pages");
    assert_eq!(tags.lock().unwrap().len(), 5, "nothing was removed");
    for body in ["<html>log in</html>", "{\"tags\": 5}", ""] {
        let server = Server::answering(|request| {
            if request.contains("tags/list") { answer(200, body) } else { answer(404, "") }
        });
        let Some(machine) = with_registry(&server) else { return };
        refuses(&machine, "remote.damaged", "damaged list of entries");
    }
}

/// A machine whose shared store is a bucket on this server.
fn with_bucket(server: &Server) -> Option<Machine> {
    let machine = Machine::new("s3://results/team")?;
    let machine = machine.with("AWS_ACCESS_KEY_ID", "key").with("AWS_SECRET_ACCESS_KEY", "secret");
    machine.setting(&format!("endpoint = \"{}\"", server.root()));
    Some(machine)
}

/// A page of a list of objects that were written in 2001.
fn page_of_objects(keys: &[String], next: Option<&str>) -> Answer {
    let object = |key: &String| {
        format!(
            "<Contents><Key>{key}</Key><Size>3</Size><ETag>e</ETag><StorageClass>STANDARD</StorageClass>\
             <LastModified>2001-01-01T00:00:00.000Z</LastModified></Contents>"
        )
    };
    let objects: String = keys.iter().map(object).collect();
    let next = next
        .map(|token| format!("<NextContinuationToken>{token}</NextContinuationToken>"))
        .unwrap_or_default();
    let text = format!(
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><MaxKeys>1000</MaxKeys>{next}{objects}</ListBucketResult>"
    );
    answer(200, &text)
}

#[test]
fn only_entries_and_blobs_of_a_bucket_are_pruned() {
    let server = Server::answering(|request| {
        if request.contains("list-type=2") {
            let folder = if request.contains("team%2Fcas%2F") { "cas" } else { "ac" };
            if request.contains("continuation-token=more") {
                return page_of_objects(&[format!("team/{folder}/{}", id(2))], None);
            }
            let keys = [
                format!("team/{folder}/{}", id(1)),
                format!("team/{folder}/notes.txt"),
                format!("team/{folder}/.."),
                format!("other/{folder}/{}", id(3)),
            ];
            return page_of_objects(&keys, Some("more"));
        }
        answer(if request.starts_with("DELETE") { 204 } else { 200 }, "{}")
    });
    let Some(machine) = with_bucket(&server) else { return };
    assert_eq!(entries(&machine), 2);
    server.requests();
    let pruned = machine.run(&["cache", "prune", "--remote", "--all", "--json"]).succeeds().json();
    assert_eq!(
        (&pruned["removed"], &pruned["removed_files"], &pruned["removed_bytes"]),
        (&2.into(), &2.into(), &6.into()),
        "{pruned}"
    );
    let requests = server.requests();
    let removed = requests.iter().filter_map(|one| one.strip_prefix("DELETE ")?.split('?').next());
    let expected =
        ["ac", "cas"].map(|folder| [1, 2].map(|number| format!("/results/team/{folder}/{}", id(number))));
    assert_eq!(removed.collect::<Vec<_>>(), expected.concat());
}

#[test]
fn lists_of_a_bucket_end() {
    let list_only = |request: &str, list: Answer| {
        if request.contains("list-type=2") { list } else { answer(404, "") }
    };
    let endless = Server::answering(move |request| list_only(request, page_of_objects(&[], Some("same"))));
    let Some(machine) = with_bucket(&endless) else { return };
    refuses(&machine, "remote.damaged", "followed by an earlier one");
    let damaged =
        Server::answering(move |request| list_only(request, answer(200, "<ListBucketResult><Contents>")));
    let Some(machine) = with_bucket(&damaged) else { return };
    refuses(&machine, "remote.damaged", "damaged list of entries");
}
