//! Whom to ask for which names.

use std::net::{IpAddr, SocketAddr};

use hickory_resolver::proto::rr::Name;

/// What the system's resolver would go by, or what the caller has set in its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Name servers in the order of preference.
    pub(super) servers: Vec<SocketAddr>,
    /// Domains by which a name may be completed, in the order to be tried.
    pub(super) search: Vec<Name>,
    /// Names with at least as many dots are tried as they are first.
    pub(super) ndots: usize,
    /// Whether queries offer room for more than 512 bytes of answer.
    pub(super) edns0: bool,
    /// The text of the hosts file.
    pub(super) hosts: String,
}

impl Plan {
    /// These name servers and nothing of the system. With EDNS, few answers are so long that TCP is needed.
    pub(super) fn explicit(servers: &[SocketAddr]) -> Self {
        Self { servers: servers.to_vec(), edns0: true, ..Self::default() }
    }

    /// The complete names that `name` may stand for, in the order to be tried.
    ///
    /// The rules are those of glibc's `res_nsearch`. They are not left to hickory: its `lookup_ip` holds back the
    /// addresses of one family until the other has answered or timed out, goes on to the next domain after a time-out
    /// as after a denial, and looks into the hosts file only when the search has come to a name that stands there.
    pub(super) fn candidates(&self, name: &Name) -> Vec<Name> {
        let mut complete = name.clone();
        complete.set_fqdn(true);
        if name.is_fqdn() || name.is_localhost() {
            return vec![complete];
        }
        let dots = usize::from(name.num_labels()).saturating_sub(1);
        // A domain that makes the name too long cannot hold it.
        let mut candidates: Vec<Name> = self
            .search
            .iter()
            .filter_map(|domain| name.clone().append_domain(domain).ok())
            .filter(|candidate| *candidate != complete)
            .collect();
        let place = if dots >= self.ndots { 0 } else { candidates.len() };
        candidates.insert(place, complete);
        candidates
    }

    /// The addresses of `name` in the hosts file. As for the system, DNS is not asked for a name that has any.
    pub(super) fn in_hosts_file(&self, name: &str) -> Vec<IpAddr> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let mut addresses = Vec::new();
        for line in self.hosts.lines() {
            let entry = line.split('#').next().unwrap_or(line);
            let mut words = entry.trim_start_matches('\u{feff}').split_whitespace();
            // Addresses with a scope, as some systems have for link-local names, do not parse and are passed over.
            let Some(Ok(address)) = words.next().map(str::parse) else {
                continue;
            };
            if words.any(|host| host.eq_ignore_ascii_case(name)) {
                addresses.push(address);
            }
        }
        addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(name: &str, ndots: usize, search: &[&str]) -> Vec<String> {
        let plan = Plan {
            search: search.iter().map(|domain| Name::from_ascii(domain).unwrap()).collect(),
            ndots,
            ..Plan::default()
        };
        let name = Name::from_ascii(name).unwrap();
        plan.candidates(&name).iter().map(Name::to_string).collect()
    }

    #[test]
    fn a_name_with_too_few_dots_is_completed_first_and_tried_as_it_is_last() {
        assert_eq!(candidates("a", 1, &["x.test", "test."]), ["a.x.test.", "a.test.", "a."]);
        assert_eq!(candidates("a.b", 5, &["x.test"]), ["a.b.x.test.", "a.b."]);
    }

    #[test]
    fn a_name_with_enough_dots_is_tried_as_it_is_first() {
        assert_eq!(candidates("a.b", 1, &["x.test"]), ["a.b.", "a.b.x.test."]);
        assert_eq!(candidates("a", 0, &["x.test"]), ["a.", "a.x.test."]);
    }

    #[test]
    fn a_name_with_a_final_dot_is_complete() {
        assert_eq!(candidates("a.", 5, &["x.test"]), ["a."]);
    }

    #[test]
    fn without_a_search_list_the_name_is_complete() {
        assert_eq!(candidates("a.b", 5, &[]), ["a.b."]);
    }

    #[test]
    fn a_search_domain_that_changes_nothing_or_does_not_fit_is_passed_over() {
        let long = vec!["a".repeat(62); 4].join(".");
        assert_eq!(candidates("a.b", 5, &[".", &long, "x.test"]), ["a.b.x.test.", "a.b."]);
        assert_eq!(candidates(&long, 5, &["no-room-left.test"]), [format!("{long}.")]);
    }

    #[test]
    fn the_hosts_file_is_read_line_by_line_whatever_stands_in_it() {
        let plan = Plan {
            hosts: "\u{feff}127.0.0.1 localhost\n\
                    192.0.2.1\tpeer.test peer # peer.test\n\
                    fe80::1%lo0 peer\n\
                    # 192.0.2.2 peer\n\
                    nonsense peer\n\
                    192.0.2.3\n\n\
                    2001:db8::1 other PEER\r\n"
                .to_owned(),
            ..Plan::default()
        };
        let expected: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(plan.in_hosts_file("peer"), expected);
        assert_eq!(plan.in_hosts_file("Peer."), expected);
        assert_eq!(plan.in_hosts_file("localhost"), ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(plan.in_hosts_file("test"), [] as [IpAddr; 0]);
    }
}
