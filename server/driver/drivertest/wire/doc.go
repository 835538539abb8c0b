// Package wire holds what every fake cloud's HTTP API does beside its work.
//
// A fake cloud is an [http.Handler] that speaks a cloud's real protocol, so that
// the cloud's own SDK runs against it as it is. What the verbs of that protocol
// do, how its answers look and what its errors are called is the fake's matter.
// What is the same for all of them is here:
//
//   - A [Gate] stands before the verbs. It numbers and remembers the calls, holds
//     them to the rates that the cloud documents, and gives them the faults that a
//     test asks for. [Gate.Serve] is the order in which a fault and an effect
//     happen; a fake only says how it renders an answer and a refusal.
//   - [RoundTripper] is a transport without a socket: a client and a fake in one
//     process, and in a bubble of testing/synctest, where a socket would keep time
//     from passing.
//
// All time is that of package time. Nothing here starts a goroutine.
package wire
