//! How close the cluster stays to one central bucket: the bars of the published table, for every seed.

use crate::sim::{catalog::named, play_bar};

macro_rules! bars {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                play_bar(&named(stringify!($name)));
            }
        )*

        #[test]
        fn every_bar_is_a_test() {
            let tests = [$(stringify!($name)),*];
            for bar in crate::sim::catalog::bars() {
                assert!(tests.contains(&bar.scenario.name), "{} is never played", bar.scenario.name);
            }
        }
    };
}

bars! {
    three_nodes_9x_over
    ten_nodes_10x_over
    ten_nodes_100x_over
    fifty_nodes_10x_over
    ten_nodes_3x_over_a_wide_quota
    three_nodes_9x_over_with_loss
    ten_nodes_10x_over_with_loss
    fifty_nodes_10x_over_with_loss
    ten_nodes_10x_over_at_20_ms
    ten_nodes_100x_over_at_20_ms
    one_busy_node_of_ten
    load_that_moves_from_node_to_node
    nine_tenths_of_the_quota
    a_thousand_keys_5x_over
}
