// Package gcpfake is the part of Google Compute Engine that Nstance uses, in memory
// and behind its real protocol: REST with JSON at /compute/v1, where a change answers
// with an operation that is done later, and the metadata server of each machine.
// Google's own client library runs against it as it is.
//
// The fake follows the descriptors of that library: which path, parameters and body a
// verb has stands there (google.api.http), and what stands nowhere is refused, as the
// real service refuses it. How a verb behaves follows the reference pages at
// https://docs.cloud.google.com/compute/docs/reference/rest/v1. Where those are silent
// the file of the verb says what is assumed.
//
// What a caller meets here as it does there:
//
//   - A change is checked at once and carried out later. A lack of machines or of
//     addresses, and a quota, end the operation and not the call.
//   - A call that is repeated with the same requestId answers the operation of the
//     first one, within an hour, also if what it made is gone.
//   - A network interface and labels change only with the fingerprint of what is there.
//   - Every listing comes in pages, filtered by an expression.
//   - What was made, and what ended, shows in get and list only after [Options.Lag].
//   - A zone runs out of a machine type ([Cloud.SetRoom]), a subnet out of addresses.
//   - Spot machines are taken away: [Cloud.Interrupt].
//   - Calls need a token of a metadata server, and are throttled ([Options.Limits]).
//
// What goes wrong on demand, [wire.Gate] decides: [Cloud.Gate].
//
// A [Cloud] is an [http.Handler]. [Cloud.Client] calls it without a socket, so that a
// test can run in a bubble of testing/synctest; cmd/fake-gce serves it as a process.
// Machines are entries in a table, unless [Options.Run] starts something for them.
// Nothing is stored: a new Cloud is empty.
package gcpfake
