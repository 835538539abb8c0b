// Package translate turns Pods into CapacityRequests.
//
// [Excluded] says which Pods ask for no capacity. [Build] translates all others: what their
// Node has to satisfy, what they take of it by kube-scheduler's own arithmetic
// ([Requests]), their priority, penalties, spread, co-location and tolerations. What a
// CapacityRequest cannot express is left out and named in [Result.Warnings]; it never makes
// a Pod ask for nothing.
//
// The package is pure: a Pod, what its claims and its PriorityClass say, and the settings are
// arguments, and equal arguments give equal requests. It leaves to others who writes the
// objects (the controller of Pods), what many of them add up to (package aggregate), and
// the placing of Pods, which is kube-scheduler's alone.
package translate
