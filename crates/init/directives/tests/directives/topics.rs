//! The files of cases, a test for each.

/// Makes a test of each file of cases, which `run` is called with the name of.
macro_rules! every_topic {
    ($run:path, $($need:expr),+) => {
        $crate::topics::every_topic!(@each $run, [$($need),+],
            calls, capabilities, credentials, ending, folders, groups, identity, images, limits, namespaces, paths, process, protect,
            restrictions, roots, streams);
    };
    (@each $run:path, $needs:tt, $($topic:ident),*) => {
        $($crate::topics::every_topic!(@one $run, $needs, $topic);)*

        #[test]
        fn every_file_of_cases_has_a_test() {
            assert_eq!($crate::case::topics(), [$(stringify!($topic)),*]);
        }
    };
    (@one $run:path, [$($need:expr),+], $topic:ident) => {
        #[test]
        fn $topic() {
            muster_lab::require!($($need),+);
            $run(stringify!($topic));
        }
    };
}

pub(crate) use every_topic;
