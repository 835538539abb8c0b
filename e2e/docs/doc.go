// Package docs holds the test that keeps the commands in the documentation true: it
// asks the built programs whether they know them.
//
// What can be checked by reading alone (links, names of metrics and errors, numbers
// of invariants) is checked in package archtest.
package docs
