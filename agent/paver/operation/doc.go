// Package operation decides how nstance-paver carries an operation out that was asked of its host:
// a restart of a service or of the node machine, a collection of logs, new SSH keys, a reset, a reboot, a shutdown.
//
// [Next] is a pure function of the record of an operation, what is seen of the host, and the time: it
// returns one step with its reason. The caller carries the step out; what the record is then the
// methods of [Record] say. A record is durable before anything is done that it stands for, and what
// is done is proved by what is seen afterwards, never by having been asked for:
//
//   - a reboot by another boot ID of the host, a restart of the machine by another boot ID of that,
//     a restart of a service by another invocation of its unit;
//   - a collection of logs by the word of the servers that they are stored;
//   - so an operation that a crash has interrupted goes on where it was, and is not done twice:
//     what the proof shows is done is not asked for again.
//
// An operation ends once: [Complete] and [Failed] are final. One that is known by its id is the same
// operation, whoever asks again, for as long as its record is kept ([Book]).
//
// It leaves to others how a unit is restarted or a host is looked at, and whether a machine may be
// touched while another one is being built.
package operation
