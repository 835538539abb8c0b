// Package drivertest holds what tests of drivers, and tests on top of drivers,
// need: the contract of [driver.Driver] as a suite, and a cloud in memory.
//
// [Run] checks any driver through a [Harness] that says how to reach it. What it
// checks is the whole of what a shard server relies on: repeatable calls, one
// machine for one instance id, deletion that a late create cannot undo, listings
// that keep owners apart, statuses that tell the truth about dead machines, and
// errors that carry a [driver.ErrorClass].
//
// [Cloud] is a cloud that behaves, and misbehaves on demand: slow and lost
// answers, lagging and empty listings, throttling, missing capacity, machines
// that die at birth, deletions that take minutes, and people who stop machines
// by hand. It passes the suite. [Cloud.Machines] is the truth that a driver's
// listing may lag behind, [Cloud.Calls] what was asked of it, and [Options.OnCall]
// the place to check what must hold whenever a call is sent.
//
// All time in a Cloud is that of package time, so tests run it in a bubble of
// testing/synctest and wait for nothing.
package drivertest
