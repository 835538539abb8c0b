// Package processes tests clusters of real processes on this box: the promises that a user
// can check. What comes up, what comes back after which kill, who is refused what.
package processes
