// Package upgrade has tests that run the programs of an earlier release beside those of
// this tree, on one storage: a fleet is upgraded by replacing one server after the other,
// and taken back the same way when the new release is not to stay.
//
// `make test-upgrade` builds the earlier release from the history of this repository and
// runs the tests; OLD names another commit.
package upgrade
