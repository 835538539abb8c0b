// Package preflight says whether a node machine can be built on a host. It reports and repairs
// nothing: what is wrong is told with what to do about it.
//
// A [Prober] finds out, within a time and without changing anything; [Judge] decides from what
// it found. Each check has an ID that may be the reason of a condition. What was not looked
// at, because nobody knows yet what to look at, such as an API server before the first
// assignment, gives no check.
//
// A check is degraded where the host's policy lets a machine be built all the same: limits of
// Pods have no effect there. Which policy that is, is the caller's business.
package preflight
