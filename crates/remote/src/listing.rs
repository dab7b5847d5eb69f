//! Lists that a server sends in pages.

use std::collections::BTreeSet;

use gpubuild_host::net::Response;

use super::error::RemoteError;
use super::server::Call;

/// The limit on pages of a list. Registries send 100 entries or more per page, S3 sends 1000.
const MAX_PAGES: usize = 1000;
/// The limit on entries of a list.
const MAX_ENTRIES: usize = 1_000_000;

/// A page of a list, and where the next one is.
pub(crate) struct Page<Entry, Position> {
    /// The URL for messages.
    pub(crate) url: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) next: Option<Position>,
}

/// All entries of a list. `read` reads the page at a position.
pub(crate) fn all_pages<Entry, Position: Ord + Clone>(
    first: Position,
    mut read: impl FnMut(&Position) -> Result<Page<Entry, Position>, RemoteError>,
) -> Result<Vec<Entry>, RemoteError> {
    let mut entries = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = Some(first);
    while let Some(position) = next {
        let page = read(&position)?;
        seen.insert(position);
        entries.extend(page.entries);
        let problem = match &page.next {
            Some(next) if seen.contains(next) => "a page is followed by an earlier one".to_owned(),
            Some(_) if seen.len() == MAX_PAGES => format!("it has more than {MAX_PAGES} pages"),
            _ if entries.len() > MAX_ENTRIES => format!("it has more than {MAX_ENTRIES} entries"),
            _ => {
                next = page.next;
                continue;
            }
        };
        return Err(RemoteError::DamagedList { url: page.url, what: problem });
    }
    Ok(entries)
}

/// Reads the body of a page.
pub(crate) fn document(url: &str, response: Response, call: &Call<'_>) -> Result<Vec<u8>, RemoteError> {
    call.document(url, response).map_err(|error| match error {
        RemoteError::Damaged { url, what } => RemoteError::DamagedList { url, what },
        other => other,
    })
}

/// The target of the link to the next page, in the `Link` headers of a response (RFC 8288).
pub(crate) fn next_link(response: &Response) -> Option<String> {
    let links = response.headers.iter().filter(|(name, _)| name == "link");
    links.flat_map(|(_, value)| parse_links(value)).find(|link| link.is_next).map(|link| link.target)
}

struct Link {
    target: String,
    is_next: bool,
}

/// The links of a header such as `</v2/x/tags/list?last=b>; rel="next"`, up to the first mistake.
fn parse_links(value: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let mut rest = value;
    while let Some((target, after)) =
        rest.trim_start_matches([' ', '\t', ',']).strip_prefix('<').and_then(|rest| rest.split_once('>'))
    {
        let end = end_of_parameters(after);
        let relation = after[..end].split(';').find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("rel").then(|| value.trim().trim_matches('"'))
        });
        let mut kinds = relation.unwrap_or_default().split_ascii_whitespace();
        let is_next = kinds.any(|kind| kind.eq_ignore_ascii_case("next"));
        links.push(Link { target: target.to_owned(), is_next });
        rest = &after[end..];
    }
    links
}

/// The index of the first comma that is not in a quoted text.
fn end_of_parameters(text: &str) -> usize {
    let mut is_quoted = false;
    let end = text.find(|c| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_to_the_next_page_is_found() {
        let next = |values: &[&str]| {
            let headers = values.iter().map(|value| ("link".to_owned(), (*value).to_owned())).collect();
            next_link(&Response { status: 200, headers, body: Box::new(std::io::empty()) })
        };
        for (values, expected) in [
            (&[r#"</v2/x/tags/list?last=b&n=2>; rel="next""#][..], Some("/v2/x/tags/list?last=b&n=2")),
            (&["</a>;rel=next"], Some("/a")),
            (&["</a>; REL=\"prev Next\""], Some("/a")),
            (&[r#"</a>; title="x, rel=next", </b>; rel="next""#], Some("/b")),
            (&[r#"</a>; rel="prev", <https://h/b,c?d;e>; type="x"; rel="next""#], Some("https://h/b,c?d;e")),
            (&[r#"</a>; rel="prev""#, r#"</b>; rel="next""#], Some("/b")),
            (&[r#"</a>; rel="nextish""#], None),
            (&["</a>", "/a; rel=next", "<", "<>", "", "</a; rel=next"], None),
            (&[], None),
        ] {
            assert_eq!(next(values).as_deref(), expected, "{values:?}");
        }
    }

    #[test]
    fn lists_without_an_end_are_damaged() {
        let page = |entries: usize, next: Option<usize>| Page {
            url: "u".to_owned(),
            entries: vec![(); entries],
            next,
        };
        let outcome = |next: fn(usize) -> Option<usize>, each: usize| {
            let listed = all_pages(1, |at| Ok(page(each, next(*at))));
            listed.map(|entries| entries.len()).map_err(|error| error.to_string())
        };
        assert_eq!(outcome(|at| (at < MAX_PAGES).then(|| at + 1), 2), Ok(2 * MAX_PAGES));
        assert!(outcome(|at| Some(at + 1), 0).unwrap_err().contains("more than 1000 pages"));
        assert!(outcome(|at| Some(at + 1), 200_000).unwrap_err().contains("more than 1000000 entries"));
        assert!(outcome(|_| None, MAX_ENTRIES + 1).unwrap_err().contains("entries"));
        assert!(outcome(|at| Some(3 - at), 1).unwrap_err().contains("followed by an earlier one"));
    }
}
