// Package hosts keeps what the hosts of a shard build their node machines from: it stores
// assignments, brings them to the agents, and tells operators what the hosts report.
//
// [Machines] does so for one leader's term. An assignment is an object of its own in storage
// beside the record of its instance, with which it goes. The agent of a host is sent the one
// in force after each connect and whenever it changes; what was sent on its stream is
// remembered, so that nothing is lost where the queue of the stream is full. Assignments of a
// machine are ordered by their epoch, whoever writes them in whatever order (M40).
//
// Credentials are in memory alone (M43): nothing here writes one down, into storage, a log or
// an error. After a change of leader the operator is told which are missing.
//
// Operations are of two kinds. [Operations] switch power, and are durable here. Those that a host
// carries out itself [Machines] relays ([Machines.Order]): the host makes them durable and knows them
// by their ids, so here they are in memory alone, and whoever asks for one asks again after a change
// of leader.
//
// Logs that a host hands over ([Machines.Logs]) are stored if such an operation was asked of it, and the host is told where.
//
// What a host is to prepare in the background ([Machines.Prebuild]) is relayed in the same way, and stored nowhere: a host
// that goes on needs no leader for it, and of one whose message was lost the next leader tells the operator that it knows
// of nothing to prepare, whereupon the operator, whose HostMachine says that it is being prepared, puts it again.
//
// What it costs: an instance without a node machine, and an agent whose host has no paver,
// cost nothing. No object is read or listed as long as no instance of the shard was made from
// a template with node machines. Then one listing at the take-over, and one read of each
// object, beside the rest of the take-over. In memory a template is kept once, however many
// machines are built from it.
//
// It leaves to others: what is to be built and when, which the operator decides, and the
// building, which the paver on the host does. It does not look into a template.
//
// Lock order: the turn of an instance to be written; that of the book of machines; that of a
// machine; that of the watchers. Messages are offered to an agent's stream under the machine's lock, so that
// what is noted as sent is what was sent; the functions among [Options] but Agents are
// called under none.
package hosts
