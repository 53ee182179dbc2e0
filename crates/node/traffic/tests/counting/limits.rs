//! Amounts are right, and limits hold for as long as they should.

use muster_traffic::Limits;

use crate::rig::{self, OUTSIDE, Rig, Servers, address};
use crate::{BACKENDS, TestClock, close_to, converse, flood, ident, on_node, started};

const NOON: i64 = 1_767_268_800; // 2026-01-01 12:00
const DAY: i64 = 24 * 60 * 60;

#[test]
fn what_is_counted_is_what_was_sent() {
    muster_lab::require!(Root, NetNs, Tool("iptables-nft"), Tool("iptables-legacy"));
    for backend in BACKENDS {
        let rig = Rig::new();
        let folder = tempfile::tempdir().unwrap();
        on_node(&rig, backend, folder.path(), async |store, firewall| {
            let clock = TestClock::new(NOON);
            let (traffic, stop) = started(&store, &firewall, clock.settings()).await;
            for (index, name) in [(0, "a"), (1, "b"), (2, "c")] {
                traffic
                    .add_instance(&ident(index), address(name).into(), Limits::default())
                    .await
                    .unwrap();
            }
            assert_eq!(traffic.system().upload, 0, "{backend}");

            // Up only, and within the node, where nothing is counted.
            let up = flood(rig.host("a"), OUTSIDE, 2000);
            flood(rig.host("a"), address("b"), 500);
            flood(rig.host("b"), address("a"), 500);
            traffic.poll().await.unwrap();
            let a = traffic.instance(&ident(0)).unwrap();
            println!("{backend}: sent {up}, counted {}", a.upload);
            assert!(close_to(a.upload, up, 2), "{backend}: {} of {up}", a.upload);
            // Errors of those who do not listen come back.
            assert!(a.download < up / 50, "{backend}: {a:?}");
            assert_eq!(
                traffic.instance(&ident(1)).unwrap().upload,
                0,
                "{backend}: local traffic counted"
            );
            assert_eq!(
                traffic.instance(&ident(2)).unwrap(),
                muster_traffic::Usage::default()
            );

            // Both ways.
            let bytes = 8 << 20;
            converse(rig.host("b"), rig.host("outside"), OUTSIDE, 7000, bytes);
            traffic.poll().await.unwrap();
            let b = traffic.instance(&ident(1)).unwrap();
            println!("{backend}: {bytes} each way, counted {b:?}");
            // Headers and acknowledgements are traffic, too.
            for counted in [b.download, b.upload] {
                assert!(
                    close_to(counted, bytes as u64, 6),
                    "{backend}: {counted} of {bytes}"
                );
            }

            // The node's own comes on top of its instances'.
            let before = traffic.system();
            assert!(
                close_to(before.upload, a.upload + b.upload, 1),
                "{backend}: {before:?}"
            );
            let own = flood(rig.host("node"), OUTSIDE, 1000);
            flood(rig.host("node"), address("a"), 100);
            traffic.poll().await.unwrap();
            let counted = traffic.system().upload - before.upload;
            assert!(close_to(counted, own, 2), "{backend}: {counted} of {own}");
            stop().await;
        });
    }
}

#[test]
fn limits_hold_when_passed_and_lift_when_the_period_ends() {
    muster_lab::require!(Root, NetNs, Tool("iptables-nft"), Tool("iptables-legacy"));
    for backend in BACKENDS {
        let rig = Rig::new();
        let folder = tempfile::tempdir().unwrap();
        let _outside = Servers::start(rig.host("outside"), &[80]);
        let _b = Servers::start(rig.host("b"), &[80]);
        on_node(&rig, backend, folder.path(), async |store, firewall| {
            let clock = TestClock::new(NOON);
            let limits = Limits {
                daily_upload: Some(1_000_000),
                monthly_upload: Some(2_500_000),
                ..Limits::default()
            };
            let (traffic, stop) = started(&store, &firewall, clock.settings()).await;
            let outside = || rig::udp(rig.host("a"), OUTSIDE, 80).is_some();
            let a = ident(0);
            traffic
                .add_instance(&a, address("a").into(), limits)
                .await
                .unwrap();
            assert!(outside(), "{backend}: before");

            flood(rig.host("a"), OUTSIDE, 800);
            traffic.poll().await.unwrap();
            let used = traffic.instance(&a).unwrap();
            assert!(
                used.upload_blocked && !used.download_blocked,
                "{backend}: {used:?}"
            );
            assert!(!outside(), "{backend}: the day's limit holds");
            assert!(
                rig::tcp(rig.host("a"), address("b"), 80).is_some(),
                "{backend}: local goes on"
            );
            // What is dropped is not counted.
            flood(rig.host("a"), OUTSIDE, 800);
            traffic.poll().await.unwrap();
            assert_eq!(
                traffic.instance(&a).unwrap().upload,
                used.upload,
                "{backend}"
            );

            // Neither a clock set back, nor a restart of the instance, nor one of this process lifts it.
            clock.set(NOON - 40 * DAY);
            traffic.poll().await.unwrap();
            assert!(!outside(), "{backend}: the clock went back");
            clock.set(NOON - 40 * DAY + 60);
            traffic.remove_instance(&a).await.unwrap();
            assert_eq!(traffic.instance(&a), None);
            traffic
                .add_instance(&a, address("a").into(), limits)
                .await
                .unwrap();
            assert!(!outside(), "{backend}: it was restarted");
            stop().await;
            assert!(!outside(), "{backend}: nobody looks");
            let (traffic, stop) = started(&store, &firewall, clock.settings()).await;
            traffic
                .add_instance(&a, address("a").into(), limits)
                .await
                .unwrap();
            assert_eq!(
                traffic.instance(&a).unwrap().upload,
                used.upload,
                "{backend}: an amount was lost or grew"
            );
            assert!(!outside(), "{backend}: the manager was restarted");

            // A new day, and the next, in which the month's limit is passed; then a new month.
            clock.set(NOON - 39 * DAY);
            traffic.poll().await.unwrap();
            assert!(outside(), "{backend}: a new day");
            flood(rig.host("a"), OUTSIDE, 800);
            traffic.poll().await.unwrap();
            assert!(!outside(), "{backend}: the next day's limit");
            clock.set(NOON - 38 * DAY);
            traffic.poll().await.unwrap();
            assert!(outside(), "{backend}: the third day");
            flood(rig.host("a"), OUTSIDE, 400);
            traffic.poll().await.unwrap();
            clock.set(NOON - 37 * DAY);
            traffic.poll().await.unwrap();
            let usage = traffic.instance(&a).unwrap();
            assert!(
                usage.upload_blocked && usage.today.upload == 0,
                "{backend}: the month's limit: {usage:?}"
            );
            assert!(!outside(), "{backend}: the month's limit");
            clock.set(NOON);
            traffic.poll().await.unwrap();
            assert!(outside(), "{backend}: a new month");
            let usage = traffic.instance(&a).unwrap();
            assert!(
                usage.upload > 2_500_000 && usage.this_month.upload < 1000,
                "{backend}: {usage:?}"
            );
            stop().await;
        });
    }
}

/// Somebody throws all rules away: counting goes on, amounts stay, limits come back.
#[test]
fn lost_meters_are_made_again() {
    muster_lab::require!(Root, NetNs);
    let rig = Rig::new();
    let folder = tempfile::tempdir().unwrap();
    on_node(&rig, "nft", folder.path(), async |store, firewall| {
        let limits = Limits {
            daily_upload: Some(100_000),
            ..Limits::default()
        };
        let (traffic, stop) = started(&store, &firewall, TestClock::new(NOON).settings()).await;
        traffic
            .add_instance(&ident(0), address("a").into(), limits)
            .await
            .unwrap();
        let first = flood(rig.host("a"), OUTSIDE, 50);
        traffic.poll().await.unwrap();
        rig.tool("node", &["nft", "flush", "ruleset"], "");
        traffic.poll().await.unwrap();
        assert_eq!(traffic.instance(&ident(0)).unwrap().upload, first);
        // The network manager puts its rules back; the meter is there already.
        let again = [
            muster_firewall::Change::PutNetwork(rig::network("br1")),
            muster_firewall::Change::PutInstance(rig::policy("a")),
        ];
        firewall.apply(&again).unwrap();
        let second = flood(rig.host("a"), OUTSIDE, 50);
        traffic.poll().await.unwrap();
        let usage = traffic.instance(&ident(0)).unwrap();
        assert_eq!(usage.upload, first + second);
        assert!(usage.upload_blocked);
        flood(rig.host("a"), OUTSIDE, 50);
        traffic.poll().await.unwrap();
        assert_eq!(traffic.instance(&ident(0)).unwrap().upload, first + second);
        stop().await;
    });
}
