//! Signs about permissions: the user, the groups of this process, and the user and group databases.

use gpubuild_host::Os;

use super::SignContext;

/// Observations about users and groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessSigns {
    /// Name of the current user.
    pub user: Option<String>,
    /// Ids of the groups of this process.
    pub process_groups: Vec<u32>,
    /// Entries of `/etc/group`.
    pub groups: Vec<GroupSign>,
}

/// An entry of `/etc/group`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSign {
    /// Name of the group.
    pub name: String,
    /// Id of the group.
    pub gid: u32,
    /// Names of its members.
    pub members: Vec<String>,
}

impl AccessSigns {
    /// The name of the group with this id.
    #[must_use]
    pub fn name_of(&self, gid: u32) -> Option<&str> {
        self.group(gid).map(|group| group.name.as_str())
    }

    fn group(&self, gid: u32) -> Option<&GroupSign> {
        self.groups.iter().find(|group| group.gid == gid)
    }

    /// Whether the group database lists the user in a group that this process does not have, so that logging in again is enough.
    #[must_use]
    pub fn is_joined_since(&self, gid: u32) -> bool {
        let Some(user) = &self.user else { return false };
        let listed = self.group(gid).is_some_and(|group| group.members.contains(user));
        listed && !self.process_groups.contains(&gid)
    }
}

pub(super) fn gather(context: &SignContext<'_>) -> AccessSigns {
    let host = context.host;
    if host.platform().os != Os::Linux {
        return AccessSigns::default();
    }
    let read = |path: &str| host.read_text(&host.path(path)).unwrap_or_default();
    let uid = host.identity().uid;
    let user = uid.and_then(|uid| user_of(&read("/etc/passwd"), uid));
    let user =
        user.or_else(|| ["USER", "LOGNAME"].iter().find_map(|name| host.env().get(name).map(str::to_owned)));
    AccessSigns {
        user,
        process_groups: host.identity().groups.clone(),
        groups: parse_groups(&read("/etc/group")),
    }
}

fn user_of(text: &str, uid: u32) -> Option<String> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

fn parse_groups(text: &str) -> Vec<GroupSign> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.trim().split(':');
            let (name, gid) = (fields.next()?, fields.nth(1)?.parse().ok()?);
            let members = fields.next().unwrap_or_default().split(',').map(str::trim);
            let members = members.filter(|name| !name.is_empty()).map(str::to_owned).collect();
            Some(GroupSign { name: name.to_owned(), gid, members })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_group_databases_are_parsed() {
        let groups = parse_groups("root:x:0:\nvideo:x:44:user,other\nrender:x:109:user\nbroken\n+::\n");
        assert_eq!(groups.len(), 3);
        assert_eq!(groups[1].members, ["user", "other"]);
        assert_eq!(
            user_of("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/bash\n", 1000).as_deref(),
            Some("user")
        );
        assert_eq!(user_of("", 0), None);
        let signs = AccessSigns { user: Some("user".to_owned()), process_groups: vec![1000, 44], groups };
        assert!(signs.is_joined_since(109));
        assert!(!signs.is_joined_since(44), "the process has this group");
        assert!(!signs.is_joined_since(27));
        assert_eq!(signs.name_of(109), Some("render"));
    }
}
