// Package provisioning knows how a machine gets made: what it takes to make one, when its
// create call is sent, and what becomes of the attempt. Nothing of it is kept beyond the
// leader's term; what the next leader needs stands in the records of instances.
//
//   - [Launcher.Launch] gathers what it takes: user data that stands elsewhere, images, room
//     in a subnet. What is not known yet is found out without a worker (L7): the group's
//     creates are blocked, and [Options.Wake] is called with the last answer. Then the
//     record of the instance is made durable (S3), and its create call is queued.
//   - [Launcher.Run] sends what is queued as fast as the provider's token buckets allow, one
//     group after the other (L7). Each attempt is a state machine, fleet.AttemptState: its
//     table says what becomes of an attempt with each answer, and the state that it comes to
//     says what is done here. A call with an unknown outcome is repeated until the provider
//     says what became of it; a record is taken back only while certainly no machine was made.
//   - A group whose creates or launches fail is blocked:
//     [Launcher.Blocked] says so to who plans it, [Launcher.Room] how many creates may be handed
//     over now.
//
// Whether a machine is wanted is decided by package fleet, in the plan of its group.
//
// Lock order: that of the queue is taken before those of the cache and of the provider's buckets,
// which are asked under it. Those of the dependencies, of the back-offs and of the breakers are
// taken one at a time, and nobody is called under them.
package provisioning
