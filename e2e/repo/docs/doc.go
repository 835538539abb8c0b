// Package docs holds the tests that keep the commands in the documentation true: one
// asks the built programs whether they know them, another types the tours of the
// providers into a shell.
//
// What can be checked by reading alone (links, names of metrics and errors, numbers
// of invariants) is checked in package archtest.
package docs
