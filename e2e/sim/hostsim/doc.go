// Package hostsim runs the controllers of host machines against an API server in memory, and
// decides for each of their calls when it arrives and what becomes of it.
//
// The controllers are the real ones, with their watches, predicates and mappings, in a real
// manager. What it has of the world are its caches ([informers]), its queues ([queue]) and its
// client ([connection]), and those are of this package: each call to the API server waits until
// the world lets it go on, each event of a watch until the world hands it over, and each request
// in a queue until the world gives it to a worker. So nothing happens but one thing after another
// in an order that the seed draws, one controller may stand still between any two calls while all
// others go on, and a seed repeats event by event. The time is that of testing/synctest.
//
// Around them are models:
//
//   - an API server that counts generations, keeps the rules of the schemas, refuses to delete what
//     is referred to, and collects what has lost its owner (api.go);
//   - a scripted publisher, which takes the place of the controller that assigns versions to
//     machines (publisher.go): it locks a version by the call of package versions, stops, assigns
//     it, and some time later its Node has joined;
//   - users, who edit templates, selectors, priorities and limits, pause configurations, delete
//     configurations, versions and machines one by one and all at once, make objects that have the
//     name of a version to come, and ask for a new choice (verbs.go).
//
// What goes wrong is drawn by the plan's weather: a process ends before a write or after it, an
// answer is lost, a write is refused, a call stands still for a minute, an event is late. There
// may be two processes that both believe to lead.
//
// What has to hold at each write is checked against what the writer had read (oracle.go), so no
// race excuses anything; what has to hold in the end, when all faults have ended and nothing is
// left to do, against what follows from the objects that are there (settle.go). A process that
// starts then writes nothing.
package hostsim
