use super::*;

#[test]
fn no_section_has_a_directive_twice() {
    for (section, groups) in SECTIONS {
        let mut seen = std::collections::HashSet::new();
        for row in groups.iter().flat_map(|rows| rows.iter()) {
            let shared = matches!((*section, row.name), ("Socket", "Priority"));
            assert!(seen.insert(row.name) || shared, "[{section}] {}", row.name);
        }
    }
}
