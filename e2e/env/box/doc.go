// Package box runs real clusters on this box, for tests of the whole.
//
// A [Box] is a directory in which processes of the binaries in bin/ live as a user
// would start them: servers, the command line, and machines, which are agents. The
// package starts, stops, kills and watches them, and looks at what they leave
// behind: processes in /proc, records in the storage, answers on the wire. It knows
// nothing of how the server works inside and stubs nothing.
//
// What takes real time is waited for by its outcome, with patience for a busy box, and
// logged with how long it took. The tests that need one cluster stand in e2e/suite/processes.
//
// Everything that a Box started is gone when its test ends, machines included. They
// outlive their server by design, so they are found by what their environment says,
// never by a pid alone.
package box
