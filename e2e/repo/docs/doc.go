// Package docs holds the tests that keep the commands in the documentation true: one
// demands of each block that somebody runs it, that all of it can be checked, or that the
// page says why neither is so; others type the tours and what else needs no account into
// a shell.
//
// What can be checked by reading alone (links, names of metrics and errors, numbers
// of invariants) is checked in package archtest.
package docs
