//! What units ask `muster-exec` for.

use muster_engine::protocol::ExecKind;
use muster_exec::{CredentialSource, ExecContext, Keyring, KnownUsers, Namespace, Sandbox};
use muster_mounts::{Part, ProtectHome, ProtectSystem, Root, View};
use muster_seccomp::{Kinds, Refusal};
use muster_unit_file::config::CommandPhase;
use proptest::prelude::*;

use super::rig::{DYNAMIC, Fake, START, built_by, context, failure, variable};
use crate::context::{Built, Joined};

const STOP: (CommandPhase, ExecKind) = (CommandPhase::Stop, ExecKind::Stop);

fn built(lines: &str) -> Built {
    let lines = format!("ExecStart=/bin/x\n{lines}");
    built_by(&mut Fake::default(), &lines, START, |_| {}).unwrap()
}

#[track_caller]
fn sandbox(lines: &str) -> Sandbox {
    *context(lines).sandbox.expect("a sandbox")
}

fn view(lines: &str) -> View {
    sandbox(lines).view
}

#[test]
fn a_unit_that_asks_for_nothing_is_executed_at_once() {
    for lines in [
        "",
        "User=web\nNice=5\nStateDirectory=x\nRuntimeDirectory=y\nLimitNOFILE=7",
        "NoNewPrivileges=yes\nSandboxBestEffort=yes\nKeyringMode=inherit\nMountFlags=shared",
        "PrivateTmp=no\nProtectSystem=no\nSystemCallErrorNumber=EPERM\nPrivateMounts=no\nRootDirectory=/",
        "TTYPath=/dev/tty7\nStandardInput=tty-fail\nRemoveIPC=yes",
    ] {
        assert_eq!(context(lines).sandbox, None, "{lines}");
    }
}

#[test]
fn each_directive_alone_asks_for_the_helper() {
    for line in [
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "PrivateNetwork=yes",
        "PrivateUsers=yes",
        "PrivateMounts=yes",
        "PrivateIPC=yes",
        "PrivatePIDs=yes",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelLogs=yes",
        "ProtectClock=yes",
        "ProtectControlGroups=yes",
        "ProtectHostname=yes",
        "ProtectHome=tmpfs",
        "ProtectSystem=full",
        "ProtectProc=invisible",
        "ProcSubset=pid",
        "MemoryDenyWriteExecute=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "LockPersonality=yes",
        "RestrictNamespaces=yes",
        "RestrictAddressFamilies=none",
        "CapabilityBoundingSet=CAP_CHOWN",
        "AmbientCapabilities=CAP_CHOWN",
        "SecureBits=noroot",
        "SystemCallFilter=~mount",
        "SystemCallLog=mount",
        "SystemCallArchitectures=native",
        "ReadWritePaths=/a",
        "ReadOnlyPaths=/a",
        "InaccessiblePaths=/a",
        "ExecPaths=/a",
        "NoExecPaths=/a",
        "BindPaths=/a:/b",
        "BindReadOnlyPaths=/a",
        "TemporaryFileSystem=/a",
        "MountFlags=slave",
        "NetworkNamespacePath=/run/netns/a",
        "IPCNamespacePath=/run/ipcns/a",
        "KeyringMode=shared",
        "KeyringMode=private",
        "RootDirectory=/srv/a",
        "RootImage=/srv/a.img",
        "MountImages=/srv/a.img:/mnt",
        "ExtensionImages=/srv/a.raw",
        "ExtensionDirectories=/srv/a",
        "SetCredential=a:b",
        "LoadCredential=a",
        "ImportCredential=a*",
        "PAMName=login\nUser=web",
        "SELinuxContext=a",
        "AppArmorProfile=-a",
        "SmackProcessLabel=a",
        "NUMAPolicy=bind\nNUMAMask=0",
        "DynamicUser=yes",
        "User=only-known-to-name-services",
    ] {
        let sandbox = sandbox(line);
        assert_eq!(&*sandbox.unit, "x.service", "{line}");
        assert!(!sandbox.best_effort, "{line}");
    }
}

#[test]
fn a_dynamic_user_is_kept_from_everything_that_would_outlive_it() {
    let built = built(
        "DynamicUser=yes\nStateDirectory=a b/c:l\nRuntimeDirectory=r\nConfigurationDirectory=e",
    );
    let context = &built.context;
    let identity = context.identity.as_ref().unwrap();
    assert_eq!((identity.uid, identity.gid), (DYNAMIC, DYNAMIC));
    assert_eq!(identity.groups, [DYNAMIC]);
    assert!(context.no_new_privileges);
    let sandbox = context.sandbox.as_ref().unwrap();
    assert!(sandbox.system_calls.restrict_suid_sgid);
    let view = &sandbox.view;
    assert_eq!(view.protect_system, ProtectSystem::Strict);
    assert_eq!(view.protect_home, ProtectHome::ReadOnly);
    assert_eq!(view.private_tmp, built.private_tmp);
    let own: Vec<&str> = view.own_folders.iter().map(|path| &**path).collect();
    let real = ["/run/r", "/var/lib/private/a", "/var/lib/private/b/c"];
    assert_eq!(own, real);
    let hidden: Vec<&str> = view.temporary.iter().map(|one| &*one.path).collect();
    assert_eq!(hidden, ["/var/lib/private"]);
    let bound: Vec<&str> = view.binds.iter().map(|bind| &*bind.destination).collect();
    assert_eq!(bound, real[1..]);
    // Whatever covers the links, their folders are found by them.
    let links: Vec<_> = view
        .own_links
        .iter()
        .map(|link| (&*link.path, &*link.folder))
        .collect();
    let expected = [
        ("/var/lib/a", real[1]),
        ("/var/lib/l", real[2]),
        ("/var/lib/b/c", real[2]),
    ];
    assert_eq!(links, expected);
    assert_eq!(variable(context, "USER"), Some("x"));
    let state = variable(context, "STATE_DIRECTORY");
    assert_eq!(state, Some("/var/lib/a:/var/lib/b/c"));
    assert_eq!(variable(context, "CONFIGURATION_DIRECTORY"), Some("/etc/e"));
}

#[test]
fn a_static_user_of_the_name_comes_before_a_dynamic_one() {
    let identity = context("DynamicUser=yes\nUser=web").identity.unwrap();
    assert_eq!(identity.uid, 33);
    let other_group = context("DynamicUser=yes\nGroup=ssl").identity.unwrap();
    assert_eq!((other_group.uid, other_group.gid), (DYNAMIC, 40));
}

#[test]
fn names_that_files_do_not_know_are_left_to_the_name_services() {
    let context = context("User=far\nGroup=web\nSupplementaryGroups=away\nSystemCallFilter=read");
    assert!(context.identity.is_none());
    assert!(context.no_new_privileges, "it may be anybody but root");
    let names = context.sandbox.unwrap().names.unwrap();
    assert_eq!(names.user.as_deref(), Some("far"));
    assert_eq!(names.group.as_deref(), Some("web"));
    assert_eq!(names.groups, [Box::from("away")]);
    assert!(names.login_environment && !names.only_for_folders);
    // They may also know whose a number is.
    let names = sandbox("User=4711").names.unwrap();
    assert_eq!(names.user.as_deref(), Some("4711"));
}

#[test]
fn a_name_for_a_lent_user_is_nobody_elses() {
    let lent = |lines: &str| sandbox(lines).lent_user;
    assert_eq!(
        lent("DynamicUser=yes\nUser=guest").as_deref(),
        Some("guest")
    );
    // The name follows from the unit's, or is not lent.
    for lines in ["DynamicUser=yes", "User=jo\nPrivateTmp=yes"] {
        assert_eq!(lent(lines), None, "{lines}");
    }
    let marked = "ExecStart=!/bin/x\nDynamicUser=yes\nUser=guest";
    let built = built_by(&mut Fake::default(), marked, START, |_| {}).unwrap();
    assert_eq!(built.context.sandbox.unwrap().lent_user, None);
}

#[test]
fn name_services_are_asked_for_more_groups_where_there_are_any() {
    let mut fake = Fake::default();
    fake.has_name_services = true;
    let lines = "ExecStart=/bin/x\nUser=jo\nWorkingDirectory=~\nStateDirectory=s";
    let built = built_by(&mut fake, lines, START, |_| {}).unwrap();
    let names = built.context.sandbox.unwrap().names.unwrap();
    assert_eq!(names.user.as_deref(), Some("jo"));
    // All else is known already.
    assert!(!names.login_environment);
    assert_eq!(&*built.context.working_directory.unwrap().path, "/home/jo");
    assert_eq!(built.folders[0].owner, Some((1000, 1000)));
    for lines in [
        "",
        "DynamicUser=yes",
        "Group=ssl",
        "User=jo\nExecStart=+/bin/x",
    ] {
        let lines = format!("{lines}\nExecStart=/bin/x");
        let built = built_by(&mut fake, &lines, START, |_| {}).unwrap();
        let sandbox = built.context.sandbox;
        assert!(
            sandbox.is_none_or(|sandbox| sandbox.names.is_none()),
            "{lines}"
        );
    }
}

#[test]
fn a_filter_takes_the_way_to_more_rights_from_those_who_have_few() {
    let gains = |lines: &str| !context(lines).no_new_privileges;
    assert!(gains("RestrictRealtime=yes"));
    assert!(gains("User=root\nRestrictRealtime=yes"));
    assert!(gains("User=web\nPrivateTmp=yes"));
    assert!(gains(
        "User=web\nRestrictRealtime=yes\nAmbientCapabilities=CAP_SYS_ADMIN"
    ));
    assert!(!gains("User=web\nRestrictRealtime=yes"));
    assert!(!gains("User=web\nProtectClock=yes"));
    let kept = built_by(
        &mut Fake::default(),
        "User=web\nRestrictRealtime=yes\nExecStart=!/bin/x",
        START,
        |_| {},
    );
    assert!(!kept.unwrap().context.no_new_privileges);
}

#[test]
fn capabilities_are_what_other_restrictions_leave() {
    let sets = sandbox("PrivateDevices=yes\nAmbientCapabilities=CAP_MKNOD CAP_CHOWN").capabilities;
    let sets = sets.unwrap();
    let (mknod, rawio) = (1u64 << 27, 1u64 << 17);
    assert_eq!(sets.bounding & (mknod | rawio), 0);
    assert_eq!(sets.ambient, 1, "what is not in the bounds cannot be had");
    assert_eq!(sandbox("PrivateNetwork=yes").capabilities, None);
}

#[test]
fn calls_families_and_namespaces_arrive_in_the_kernels_numbers() {
    let policy = sandbox(
        "SystemCallFilter=@system-service open:EACCES\nSystemCallFilter=~@mount\nSystemCallErrorNumber=EPERM\n\
         RestrictAddressFamilies=AF_UNIX AF_INET AF_NONSENSE\nRestrictAddressFamilies=~AF_INET\n\
         RestrictNamespaces=user net\nLockPersonality=yes\nSystemCallArchitectures=native x86",
    )
    .system_calls;
    assert_eq!(policy.refusal, Refusal::Errno(1));
    let calls = policy.calls.unwrap();
    assert!(calls.allow);
    let rules: Vec<_> = calls
        .rules
        .iter()
        .map(|rule| (&*rule.name, rule.removed, rule.refusal))
        .collect();
    let expected = [
        ("@system-service", false, None),
        ("open", false, Some(Refusal::Errno(13))),
        ("@mount", true, None),
    ];
    assert_eq!(rules, expected);
    assert_eq!(policy.families.unwrap().families, [1]);
    assert_eq!(policy.namespaces, Some(Kinds(0x5000_0000)));
    assert_eq!(policy.lock_personality, Some(0));
    assert_eq!(policy.architectures.len(), 2);
    let kill = sandbox("SystemCallFilter=read:kill").system_calls.calls;
    assert_eq!(kill.unwrap().rules[0].refusal, Some(Refusal::Kill));
}

#[test]
fn newer_kinds_of_a_protection_are_what_they_say() {
    let users = |word: &str| sandbox(&format!("PrivateUsers={word}")).namespaces;
    for (word, known) in [
        ("yes", KnownUsers::Own),
        ("self", KnownUsers::Own),
        ("identity", KnownUsers::First),
        ("full", KnownUsers::All),
    ] {
        let namespaces = users(word);
        assert!(
            namespaces.users && namespaces.known_users == known,
            "{word}"
        );
    }
    let refused = failure("PrivateUsers=managed");
    assert_eq!(refused.exit_code, 217);
    let less = built("PrivateUsers=managed\nSandboxBestEffort=yes");
    assert!(
        less.dropped[0].starts_with("PrivateUsers: "),
        "{:?}",
        less.dropped
    );
    for (word, groups, read_only) in [
        ("yes", false, true),
        ("private", true, false),
        ("strict", true, true),
    ] {
        let sandbox = sandbox(&format!("ProtectControlGroups={word}"));
        assert_eq!(sandbox.namespaces.groups, groups, "{word}");
        assert_eq!(sandbox.view.own_groups, groups, "{word}");
        assert_eq!(sandbox.view.protect_control_groups, read_only, "{word}");
    }
}

#[test]
fn whoever_sees_no_other_groups_finds_its_own_where_the_first_one_would_be() {
    let told = |lines: &str| {
        let pressure = [
            (
                "MEMORY_PRESSURE_WATCH",
                "/sys/fs/cgroup/a/memory.pressure".to_owned(),
            ),
            ("MEMORY_PRESSURE_WRITE", "x".to_owned()),
        ];
        let built = built_by(&mut Fake::default(), lines, START, |facts| {
            facts.pressure = &pressure;
        });
        let context = built.unwrap().context;
        let writable = context.sandbox.as_ref().map(|sandbox| {
            let places = sandbox.view.read_write.iter();
            places
                .map(|place| place.path.to_string())
                .collect::<Vec<_>>()
        });
        let watched = variable(&context, "MEMORY_PRESSURE_WATCH").map(str::to_owned);
        (watched.unwrap(), writable)
    };
    let own = "/sys/fs/cgroup/memory.pressure".to_owned();
    let others = "/sys/fs/cgroup/a/memory.pressure".to_owned();
    let strict = "ProtectControlGroups=strict\nExecStart=";
    assert_eq!(
        told(&format!("{strict}/bin/x")),
        (own.clone(), Some(vec![own]))
    );
    assert_eq!(told(&format!("{strict}+/bin/x")), (others.clone(), None));
    let shared = told("ProtectControlGroups=yes\nExecStart=/bin/x");
    assert_eq!(shared, (others.clone(), Some(vec![others])));
}

#[test]
fn a_root_of_its_own_has_the_kernels_file_systems_and_the_units_folders() {
    let view = view("RootDirectory=/srv/box\nStateDirectory=a\nDynamicUser=yes\nLogsDirectory=l");
    assert_eq!(view.root, Some(Root::Folder("/srv/box".into())));
    assert!(view.kernel_file_systems && view.own_mounts);
    let binds: Vec<_> = view
        .binds
        .iter()
        .map(|bind| (&*bind.source, &*bind.destination))
        .collect();
    let expected = [
        ("/var/lib/private/a", "/var/lib/a"),
        ("/var/log/private/l", "/var/log/l"),
        ("/etc/os-release", "/run/host/os-release"),
        ("/usr/lib/os-release", "/run/host/os-release"),
    ];
    assert_eq!(binds, expected);
    let told = view.binds.iter().filter(|bind| bind.read_only);
    assert_eq!(told.filter(|bind| bind.optional).count(), 2);
    // Nothing is made in what is the unit's own.
    let own = self::view("RootDirectory=/srv/box\nBindPaths=/srv/run:/run");
    assert_eq!(own.binds.len(), 1);
    assert!(view.temporary.is_empty());
    let image = self::view("RootImage=/i\nRootImageOptions=ro root:nosuid home:x\nMountAPIVFS=no");
    assert!(!image.kernel_file_systems);
    let Some(Root::Image(image)) = image.root else {
        panic!("no image")
    };
    assert_eq!(&*image.path, "/i");
    assert_eq!(image.options_of(Part::Root), "ro,nosuid");
    assert_eq!(image.options_of(Part::Home), "x");
}

/// What is to be guarded or hidden in the kernel's file systems has to be there.
#[test]
fn guarding_the_kernels_file_systems_means_having_them() {
    let has = |lines: &str| {
        let view = view(&format!("RootDirectory=/srv/box\nMountAPIVFS=no\n{lines}"));
        view.kernel_file_systems
    };
    for lines in ["", "ProtectKernelLogs=yes", "ProtectProc=default"] {
        assert!(!has(lines), "{lines}");
    }
    for lines in [
        "ProtectKernelTunables=yes",
        "ProtectControlGroups=yes",
        "ProtectControlGroups=private",
        "ProtectProc=invisible",
        "ProcSubset=pid",
    ] {
        assert!(has(lines), "{lines}");
    }
    assert!(!view("ProtectKernelTunables=yes").kernel_file_systems);
}

#[test]
fn images_and_extensions_have_their_options() {
    let view = view(
        "MountImages=/a:/b -/c\\:d:/e:ro,nosuid /f:/g:home:nodev:root:ro:esp:x:noexec\n\
         ExtensionImages=-/x.raw:nosuid /y.raw\nExtensionDirectories=-/z /w",
    );
    let images = view.images.iter();
    let images = images.map(|it| (&*it.image.path, &*it.destination, it.optional));
    let images: Vec<_> = images.collect();
    let expected = [
        ("/a", "/b", false),
        ("/c:d", "/e", true),
        ("/f", "/g", false),
    ];
    assert_eq!(images, expected);
    let options = |number: usize, part| view.images[number].image.options_of(part);
    assert_eq!(options(0, Part::Root), "");
    assert_eq!(options(1, Part::Root), "ro,nosuid");
    assert_eq!(options(2, Part::Home), "nodev");
    assert_eq!(options(2, Part::Root), "ro,noexec");
    let extensions = view.extensions.iter();
    let extensions = extensions.map(|it| (it.directive(), it.path(), it.optional));
    let expected = [
        ("ExtensionImages", "/x.raw", true),
        ("ExtensionImages", "/y.raw", false),
        ("ExtensionDirectories", "/z", true),
        ("ExtensionDirectories", "/w", false),
    ];
    assert_eq!(extensions.collect::<Vec<_>>(), expected);
}

#[test]
fn marks_before_paths_are_read() {
    let view =
        view("ReadOnlyPaths=-+/a /b\nInaccessiblePaths=-/c\nTemporaryFileSystem=/t:size=1m,ro /u");
    let place = &view.read_only[0];
    assert!(place.optional && place.in_root && &*place.path == "/a");
    assert!(!view.read_only[1].optional && view.inaccessible[0].optional);
    let temporary: Vec<_> = view
        .temporary
        .iter()
        .map(|one| (&*one.path, &*one.options))
        .collect();
    assert_eq!(temporary, [("/t", "size=1m,ro"), ("/u", "")]);
}

#[test]
fn namespaces_are_shared_with_who_has_them_already() {
    let lines =
        "PrivateNetwork=yes\nPrivateIPC=yes\nPrivateTmp=yes\nExecStart=/bin/x\nExecStop=/bin/y";
    let built = built_by(&mut Fake::default(), lines, STOP, |facts| {
        facts.joined = Joined {
            tmp: Some("muster-private-other"),
            network: Some([4, 5]),
            ipc: None,
        };
    });
    let context = built.unwrap().context;
    assert_eq!(
        (context.network_store, context.ipc_store),
        (Some([4, 5]), None)
    );
    let sandbox = context.sandbox.unwrap();
    assert_eq!(sandbox.namespaces.network, Namespace::Own);
    assert_eq!(sandbox.namespaces.ipc, Namespace::Own);
    let tmp = sandbox.view.private_tmp.unwrap().tmp;
    assert_eq!(&*tmp, "/tmp/muster-private-other/tmp");
    // One that is named is shared by its name.
    let lines = "PrivateNetwork=yes\nNetworkNamespacePath=/n\nExecStart=/bin/x\nExecStop=+/bin/y";
    for phase in [START, STOP] {
        let built = built_by(&mut Fake::default(), lines, phase, |facts| {
            facts.joined.network = Some([4, 5]);
        });
        assert_eq!(built.unwrap().context.network_store, None);
    }
    let stated = self::sandbox("PrivateNetwork=yes\nNetworkNamespacePath=/n");
    assert_eq!(stated.namespaces.network, Namespace::Of("/n".into()));
}

#[test]
fn secrets_are_read_at_the_beginning_and_seen_until_the_end() {
    let lines = "LoadCredential=a:/etc/a\nLoadCredential=b\nSetCredential=c:text\nImportCredential=d.*\n\
                 ExecStart=/bin/x\nExecStop=/bin/y\nProtectHome=yes";
    let mut fake = Fake::default();
    fake.variables
        .insert("CREDENTIALS_DIRECTORY".into(), "/run/given".into());
    let start = built_by(&mut fake, lines, START, |_| {}).unwrap().context;
    let sandbox = start.sandbox.as_ref().unwrap();
    let names: Vec<&str> = sandbox.credentials.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["a", "b", "d.*", "c"]);
    let sources: Vec<_> = sandbox.credentials.iter().map(|one| &one.source).collect();
    assert_eq!(*sources[0], CredentialSource::Path("/etc/a".into()));
    assert_eq!(*sources[1], CredentialSource::System("b".into()));
    assert_eq!(*sources[2], CredentialSource::Matching);
    assert_eq!(*sources[3], CredentialSource::Data(b"text".to_vec()));
    assert_eq!(sandbox.credential_stores, [Box::from("/run/given")]);
    let folder = Some("/run/credentials/x.service");
    assert_eq!(variable(&start, "CREDENTIALS_DIRECTORY"), folder);
    assert_eq!(sandbox.view.credentials.as_deref(), folder);
    let all = sandbox.view.all_credentials.as_deref();
    assert_eq!(all, Some("/run/credentials"));
    let renamed = self::sandbox("ImportCredential=d.*:e.").credentials;
    assert_eq!(&*renamed[0].name, "d.*");
    assert_eq!(renamed[0].source, CredentialSource::Renamed("e.".into()));
    let stop = built_by(&mut fake, lines, STOP, |_| {}).unwrap().context;
    let sandbox = stop.sandbox.as_ref().unwrap();
    assert!(sandbox.credentials.is_empty());
    assert_eq!(sandbox.credentials_folder.as_deref(), folder);
}

/// The first command of a run puts them there, also one that keeps the manager's rights.
#[test]
fn secrets_are_the_users_whichever_command_comes_first() {
    let pre = (CommandPhase::StartPre, ExecKind::StartPre);
    let sandbox = |lines: &str| {
        let lines = format!("SetCredential=a:b\nExecStart=/bin/x\n{lines}");
        let built = built_by(&mut Fake::default(), &lines, pre, |_| {});
        *built.unwrap().context.sandbox.unwrap()
    };
    for lines in [
        "User=web\nExecStartPre=/bin/y",
        "User=web\nExecStartPre=+/bin/y",
        "User=web\nExecStartPre=!/bin/y",
        "User=web\nExecStartPre=/bin/y\nPermissionsStartOnly=yes",
    ] {
        assert_eq!(sandbox(lines).credentials_owner, Some((33, 34)), "{lines}");
    }
    let lent = sandbox("DynamicUser=yes\nExecStartPre=+/bin/y");
    assert_eq!(lent.credentials_owner, Some((DYNAMIC, DYNAMIC)));
    assert_eq!(sandbox("ExecStartPre=+/bin/y").credentials_owner, None);
    // Whom only name services know is asked for, though the command itself is not to run as that user.
    let names = sandbox("User=far\nExecStartPre=+/bin/y").names.unwrap();
    assert!(names.only_for_folders && names.user.as_deref() == Some("far"));
}

#[test]
fn what_this_machine_cannot_pass_for_is_said() {
    let lines = "Personality=s390\nExecStart=/bin/x";
    let built = built_by(&mut Fake::default(), lines, START, |_| {}).unwrap();
    assert_eq!(built.dropped.len(), 1, "{:?}", built.dropped);
}

#[test]
fn keyrings_and_logins_are_those_of_the_unit() {
    assert_eq!(context("Nice=5").keyring, Keyring::Private);
    assert_eq!(context("KeyringMode=inherit").keyring, Keyring::Inherit);
    assert_eq!(context("PrivateTmp=yes").keyring, Keyring::Inherit);
    assert_eq!(sandbox("PrivateTmp=yes").keyring, Keyring::Private);
    let inherited = sandbox("PrivateTmp=yes\nKeyringMode=inherit");
    assert_eq!(inherited.keyring, Keyring::Inherit);
    assert_eq!(sandbox("KeyringMode=shared").keyring, Keyring::Shared);
    let login = sandbox("PAMName=web\nUser=web\nStandardInput=tty\nTTYPath=/dev/tty7").login;
    let login = login.unwrap();
    assert_eq!((&*login.service, &*login.user), ("web", "web"));
    assert_eq!(login.terminal.as_deref(), Some("/dev/tty7"));
}

#[test]
fn a_command_that_keeps_its_user_logs_nobody_in() {
    for mark in ["+", "!"] {
        let lines = format!("PAMName=web\nUser=web\nPrivateTmp=yes\nExecStart={mark}/bin/x");
        let built = built_by(&mut Fake::default(), &lines, START, |_| {});
        let sandbox = built.unwrap().context.sandbox;
        assert!(
            sandbox.is_none_or(|sandbox| sandbox.login.is_none()),
            "{mark}"
        );
    }
}

/// Lines that units have, in any number and order.
fn any_lines() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "DynamicUser=yes",
        "User=web",
        "StateDirectory=a",
        "CacheDirectory=b:c",
        "SystemCallFilter=@system-service",
        "RestrictAddressFamilies=AF_UNIX",
        "CapabilityBoundingSet=CAP_CHOWN",
        "ReadWritePaths=/a -/b",
        "BindPaths=/a:/b",
        "LoadCredential=a:/a",
        "RootDirectory=/srv/a",
        "PrivateNetwork=yes",
        "NoNewPrivileges=yes",
        "SandboxBestEffort=yes",
        "Nice=3",
        "Environment=A=1",
    ]);
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

/// Lines of the above that ask for nothing that takes a helper.
fn is_plain(lines: &str) -> bool {
    const PLAIN: [&str; 7] = [
        "User",
        "State",
        "Cache",
        "NoNew",
        "SandboxBest",
        "Nice",
        "Env",
    ];
    let plain = |line: &str| PLAIN.iter().any(|start| line.starts_with(start));
    lines.lines().all(plain)
}

proptest! {
    #[test]
    fn the_same_settings_give_the_same_sandbox_and_plain_ones_none(lines in any_lines()) {
        let (one, two): (ExecContext, ExecContext) = (context(&lines), context(&lines));
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(one.sandbox.is_none(), is_plain(&lines), "{}", lines);
        if let Some(sandbox) = one.sandbox {
            // What is written for the helper is what it reads.
            let text = serde_json::to_vec(&sandbox).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Sandbox>(&text).unwrap(), *sandbox);
        }
    }
}
