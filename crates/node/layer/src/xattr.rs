//! Which extended attributes a layer may set. Pure.

use crate::error::Rule;
use crate::options::Privilege;

pub(crate) const CAPABILITY: &[u8] = b"security.capability";
/// Namespaces that the kernel or overlayfs give a meaning to.
const SYSTEM: [&[u8]; 3] = [b"trusted.", b"system.", b"user.overlay."];
/// `XATTR_NAME_MAX` of Linux.
const NAME_BYTES: usize = 255;

/// What an attribute is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bearer {
    File,
    Folder,
    Other,
}

/// What becomes of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Set,
    /// A capability that the options take off.
    Strip,
    /// Nothing that can or should be set here.
    Drop,
}

pub(crate) fn judge(name: &[u8], bearer: Bearer, capabilities: Privilege) -> Result<Verdict, Rule> {
    let refused = || Rule::XattrName(name.escape_ascii().to_string());
    if name.len() > NAME_BYTES || name.contains(&0) || matches!(name, b"" | b"user.") {
        return Err(refused());
    }
    if SYSTEM.iter().any(|namespace| name.starts_with(namespace)) {
        return Err(refused());
    }
    if name == CAPABILITY {
        return match (bearer, capabilities) {
            (Bearer::File, Privilege::Keep) => Ok(Verdict::Set),
            (Bearer::File, Privilege::Strip) => Ok(Verdict::Strip),
            (_, Privilege::Refuse) => Err(Rule::Capabilities),
            (Bearer::Folder | Bearer::Other, _) => Ok(Verdict::Drop),
        };
    }
    let kept = name.starts_with(b"user.") && bearer != Bearer::Other;
    Ok(if kept { Verdict::Set } else { Verdict::Drop })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_users_attributes_are_set_as_they_are() {
        use Bearer::{File, Folder, Other};
        let judge = |name: &str, bearer| judge(name.as_bytes(), bearer, Privilege::Strip);
        assert_eq!(judge("user.a", File), Ok(Verdict::Set));
        assert_eq!(judge("user.overlayed", Folder), Ok(Verdict::Set));
        assert_eq!(judge("user.a", Other), Ok(Verdict::Drop));
        assert_eq!(judge("security.selinux", File), Ok(Verdict::Drop));
        assert_eq!(judge("com.apple.provenance", File), Ok(Verdict::Drop));
        assert_eq!(judge("security.capability", File), Ok(Verdict::Strip));
        assert_eq!(judge("security.capability", Folder), Ok(Verdict::Drop));
        let long = format!("user.{}", "x".repeat(251));
        for name in [
            "",
            "user.",
            "user.a\0b",
            "trusted.overlay.opaque",
            "user.overlay.redirect",
            "system.posix_acl_access",
            &long,
        ] {
            assert!(
                matches!(judge(name, File), Err(Rule::XattrName(_))),
                "{name}"
            );
        }
    }

    #[test]
    fn capabilities_follow_the_policy() {
        let judge = |policy| judge(CAPABILITY, Bearer::File, policy);
        assert_eq!(judge(Privilege::Keep), Ok(Verdict::Set));
        assert_eq!(judge(Privilege::Refuse), Err(Rule::Capabilities));
    }
}
