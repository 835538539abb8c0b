// Package archtest holds the tests that keep the repository in its intended shape.
//
// They read the source and never run it: which package may import which, which
// packages may look at a clock or start a goroutine, that every package says what it
// is for, that the text stands on its own, and that a test which names an invariant
// names one that exists. A rule lives here rather than in a linter's configuration
// when it is about this repository's design; rules.go is the part to read, with bans.go
// and pure.go, and to change in the same commit as the design.
//
// A package without a rule fails the tests: whoever adds one decides first where it
// stands. What a rule forbids is explained by the failure itself.
package archtest
