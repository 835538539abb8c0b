// Package dryrun renders the templates of groups with made-up data, so that what would fail when
// a machine is made is found when the configuration is checked or the group is asked for.
package dryrun
